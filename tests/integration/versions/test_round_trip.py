"""What offsite promises, on each Kafka the sandbox can be: back up, prove, lose, restore, prove, go on reading.

Judged by an independent client. What an old broker cannot do is not tried behind its back: the plan says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Position

from offsite.model.selection import parse_selection
from offsite.pipeline.runner import Runner
from offsite.repository.open_store import open_store
from offsite.repository.repository import Repository
from offsite.sandbox import KNOWN_VERSIONS, Settings
from offsite.services.demo.data import ORDERS, TOPICS, write_demo_data
from offsite.services.demo.truth import Reading, compare, read_topic
from offsite.services.planned_restore import prepare_restore
from offsite.services.restore import run_restore
from offsite.services.restore_report import report_plan
from offsite.services.restore_request import RestoreRequest
from tests.conftest import running
from tests.integration.e2e.group_site import Groups, commit, next_value, numbered
from tests.integration.kafka.cluster import Cluster
from tests.shared_spark import shared_spark

NAMES = [topic.name for topic in TOPICS]
OLDEST_THAT_REPLAYS = "3"
GROUP = "workers"
PLAIN = "plain"

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module", params=KNOWN_VERSIONS)
def old_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Cluster]]:
    version: str = request.param
    with running(tmp_path_factory.mktemp(version), Settings(kafka_version=version)) as (_, info):
        yield version, Cluster(info.bootstrap)


@pytest.fixture(autouse=True)
def no_topics(old_cluster: tuple[str, Cluster]) -> Iterator[None]:
    yield
    admin = old_cluster[1].admin
    admin.delete_topics([name for name in admin.topics() if name in NAMES])


def truth(cluster: Cluster, names: list[str]) -> dict[str, Reading]:
    return {name: read_topic(cluster.bootstrap, name) for name in names}


@pytest.mark.parametrize("offsets", ["auto", "translate"])
def test_all_that_was_lost_comes_back(old_cluster: tuple[str, Cluster], tmp_path: Path, offsets: str) -> None:
    version, cluster = old_cluster
    groups = Groups(cluster, cluster, Repository.init(open_store(str(tmp_path / "repository"))), shared_spark())
    write_demo_data(cluster.bootstrap)
    names = NAMES
    commit(cluster, GROUP, Position(ORDERS.name, 0, 7))
    groups.back_up(*names)
    groups.site.produce(ORDERS.name, numbered(500))
    assert groups.back_up().complete
    before, upcoming = truth(cluster, names), next_value(cluster, GROUP, ORDERS.name)
    groups.site.assert_verified()
    cluster.admin.delete_topics(names)
    request = RestoreRequest(selection=parse_selection(names), offsets=offsets)
    prepared = prepare_restore(groups.site.backup, cluster.admin, request)
    print(version, offsets, [(t.source, t.offsets.mode, t.offsets.reason) for t in report_plan(prepared).topics])
    result = run_restore(prepared, admin=cluster.admin, kafka=cluster.config, runner=groups.site.spark)
    print(result)
    assert result.verified
    for name, reading in before.items():
        comparison = compare(name, reading, read_topic(cluster.bootstrap, name))
        assert comparison.identical, comparison.difference[:1000]
    groups.apply(restore=result.restore)
    assert next_value(cluster, GROUP, ORDERS.name) == upcoming
