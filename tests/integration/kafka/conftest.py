"""The shared broker as a `Cluster`, and a broker of the test's own that it may kill."""

from __future__ import annotations

import pytest

from offsite.sandbox import SandboxInfo
from tests.integration.kafka.cluster import Cluster


@pytest.fixture
def cluster(broker: SandboxInfo) -> Cluster:
    return Cluster(broker.bootstrap)
