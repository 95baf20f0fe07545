"""One warm Spark for the tests of a file: starting it takes longer than most of them, and a process holds only one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.pipeline.runner import Runner
from offsite.pipeline.session import SparkRunner
from offsite.repository.open_store import open_store
from offsite.repository.repository import Repository
from offsite.sandbox import SandboxInfo
from tests.integration.e2e.copies import Copy
from tests.integration.e2e.group_site import Groups
from tests.integration.e2e.site import Site
from tests.integration.kafka.cluster import Cluster
from tests.spark_cluster import standalone_cluster


@pytest.fixture(scope="module")
def spark() -> Iterator[Runner]:
    runner = SparkRunner()
    runner.begin()
    try:
        yield runner
    finally:
        runner.close()


@pytest.fixture(scope="module")
def spark_master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a standalone Spark cluster: a master, and one worker of two cores."""
    with standalone_cluster(tmp_path_factory.mktemp("spark-cluster")) as url:
        yield url


@pytest.fixture
def site(broker: SandboxInfo, tmp_path: Path, spark: Runner) -> Site:
    repository = Repository.init(open_store(str(tmp_path / "repository")))
    return Site(Cluster(broker.bootstrap), repository, spark)


@pytest.fixture
def groups(broker: SandboxInfo, second_broker: SandboxInfo, tmp_path: Path, spark: Runner) -> Groups:
    repository = Repository.init(open_store(str(tmp_path / "repository")))
    return Groups(Cluster(broker.bootstrap), Cluster(second_broker.bootstrap), repository, spark)


@pytest.fixture
def copy(site: Site, second_broker: SandboxInfo) -> Iterator[Copy]:
    target = Cluster(second_broker.bootstrap)
    before = set(target.admin.topics())
    yield Copy(site=site, target=target)
    target.admin.delete_topics(sorted(set(target.admin.topics()) - before - {"__transaction_state"}))
