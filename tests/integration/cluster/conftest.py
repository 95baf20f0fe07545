"""The shared cluster of three for each test, whole before and after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.repository.repository import Repository
from offsite.sandbox import Sandbox
from offsite.stores.open_store import open_store
from tests.integration.cluster.faults import mend
from tests.integration.cluster.trial import Trial
from tests.integration.kafka.cluster import Cluster
from tests.shared_spark import shared_spark


@pytest.fixture
def trial(three_brokers: Sandbox, tmp_path: Path) -> Iterator[Trial]:
    info = three_brokers.status()
    assert info is not None
    cluster = Cluster(info.bootstrap)
    mend(three_brokers, cluster)
    before = set(cluster.admin.topics())
    try:
        repository = Repository.init(open_store(str(tmp_path / "repository")))
        yield Trial(
            sandbox=three_brokers, cluster=cluster, repository=repository, runner=shared_spark(), folder=tmp_path
        )
    finally:
        mend(three_brokers, cluster)
        made = [name for name in cluster.admin.topics() if name not in before and not name.startswith("__")]
        cluster.admin.delete_topics(made)
