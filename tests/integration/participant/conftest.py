from __future__ import annotations

import pytest

from offsite.sandbox import SandboxInfo
from tests.integration.participant.site import Site


@pytest.fixture
def site(broker: SandboxInfo) -> Site:
    return Site(bootstrap=broker.bootstrap)
