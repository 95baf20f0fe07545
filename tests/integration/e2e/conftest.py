"""What all tests from end to end need: a warm Spark, a standalone one, and a site."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.engine.runner import Runner
from offsite.repository.repository import Repository
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from tests.integration.e2e.copies import Copy
from tests.integration.e2e.group_site import Groups
from tests.integration.e2e.site import Site
from tests.integration.kafka.cluster import Cluster
from tests.shared_spark import shared_spark
from tests.spark_cluster import standalone_cluster

KAFKAS_OWN = {"__transaction_state", "__consumer_offsets"}


@pytest.fixture(scope="module")
def spark() -> Runner:
    return shared_spark()


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
    target.admin.delete_topics(sorted(set(target.admin.topics()) - before - KAFKAS_OWN))
