"""What offsite promises, on each Kafka the sandbox can be: back up, prove, lose, restore, prove, go on reading.

Judged by an independent client. What an old broker cannot do is not tried behind its back: the plan says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Position

from offsite.demo.data import ORDERS, PAYMENTS, TOPICS, compare_readings, read_topic, write_demo_data
from offsite.kafka.writer import PartitionWriter
from offsite.log.group_offsets import GroupOffsets, TopicOffsetsBuilder
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import filler_batch
from offsite.model.errors import RestoreRefused
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.repository import Repository
from offsite.restore.plan import PlannedRestore, prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from offsite.sandbox import KNOWN_VERSIONS, SandboxSettings
from offsite.stores.open_store import open_store
from tests.integration.e2e.group_site import Groups, commit, next_value, numbered
from tests.integration.e2e.site import new_name
from tests.integration.e2e.transactions import with_transaction
from tests.integration.kafka.cluster import Cluster
from tests.shared_brokers import running
from tests.shared_spark import shared_spark

NAMES = [topic.name for topic in TOPICS]
DESCRIBES_TRANSACTIONS = 3
"""Since this Kafka transactions can be replayed, because brokers can be asked about them (KIP-664)."""
GROUP = "workers"
GAP = 50_000

pytestmark = pytest.mark.soak


@dataclass(frozen=True, slots=True, kw_only=True)
class Versioned:
    cluster: Cluster
    replays: bool


@pytest.fixture(scope="module", params=KNOWN_VERSIONS)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versioned]:
    version: str = request.param
    with running(tmp_path_factory.mktemp(version), SandboxSettings(kafka_version=version)) as (_, info):
        replays = int(version.partition(".")[0]) >= DESCRIBES_TRANSACTIONS
        yield Versioned(cluster=Cluster(info.bootstrap), replays=replays)


@pytest.fixture
def site(kafka: Versioned, tmp_path: Path) -> Iterator[Groups]:
    """The demo's topics, and a group that read a part of one."""
    cluster = kafka.cluster
    try:
        await_coordinator(cluster)
        write_demo_data(cluster.bootstrap)
        commit(cluster, GROUP, Position(ORDERS.name, 0, 7))
        yield Groups(cluster, cluster, Repository.init(open_store(str(tmp_path / "repository"))), shared_spark())
    finally:
        cluster.admin.delete_topics([name for name in cluster.admin.topics() if name in NAMES])


def await_coordinator(cluster: Cluster) -> None:
    """The first commit makes `__consumer_offsets`, which librdkafka does not wait for; offsite does."""
    topic = cluster.make_topic()
    offsets = TopicOffsetsBuilder(topic)
    offsets.add(0, 0, -1, "")
    assert not cluster.admin.groups.commit({"first": GroupOffsets(group="first", topics=(offsets.build(),))})
    cluster.admin.delete_topics([topic])


def prepared(site: Groups, offsets: str) -> PlannedRestore:
    request = RestoreRequest(selection=parse_selection(NAMES), offsets=offsets)
    return prepare_restore(site.site.backup, site.target.admin, request)


@pytest.mark.parametrize("offsets", ["auto", "translate"])
def test_all_that_was_lost_comes_back(kafka: Versioned, site: Groups, offsets: str) -> None:
    cluster = kafka.cluster
    site.back_up(*NAMES)
    site.site.produce(ORDERS.name, numbered(500))
    assert site.back_up().complete
    before = {name: read_topic(cluster.bootstrap, name) for name in NAMES}
    upcoming = next_value(cluster, GROUP, ORDERS.name)
    site.site.assert_verified()
    cluster.admin.delete_topics(NAMES)
    plan = prepared(site, offsets)
    result = run_restore(plan, cluster=cluster, runner=site.site.spark)
    assert result.verified
    for name, reading in before.items():
        kept = result.topics[name].same_offsets
        assert kept == (offsets == "auto" and (kafka.replays or name != PAYMENTS.name))
        comparison = compare_readings(name, reading, read_topic(cluster.bootstrap, name), offsets=kept)
        assert comparison.identical, comparison.difference[:1000]
    site.apply(restore=result.restore)
    assert next_value(cluster, GROUP, ORDERS.name) == upcoming


def test_gaps_and_transactions_come_back_at_their_offsets(kafka: Versioned, site: Groups) -> None:
    """Outcomes are written directly; without transactions that needs no description of them."""
    cluster, topic = kafka.cluster, kafka.cluster.make_topic()
    site.site.produce(topic, numbered(3))
    if kafka.replays:
        for number in range(5):
            with_transaction(site.site, topic, numbered(2), commit=number % 2 == 0)
    site.site.back_up(topic)
    key, end = TopicPartition(topic=topic, partition=0), cluster.end(topic)
    with PartitionWriter(cluster.router, key, on_ack=lambda *_: None) as writer:
        writer.send(filler_batch(GAP))
        writer.flush()
    site.site.delete_before(topic, end + GAP)
    site.site.produce(topic, numbered(2))
    site.site.back_up()
    target = new_name(topic)
    renames = parse_renames([f"{topic}={target}"])
    request = RestoreRequest(selection=parse_selection([topic]), renames=renames, offsets="preserve")
    prepared = prepare_restore(site.site.backup, cluster.admin, request)
    result = run_restore(prepared, cluster=cluster, runner=site.site.spark)
    assert (result.topics[target].same_offsets, result.verified) == (True, True)
    assert cluster.end(target) == cluster.end(topic) == end + GAP + 2
    assert [each.offset for each in site.site.read(target)[0]][-2:] == [end + GAP, end + GAP + 1]


def test_what_brokers_cannot_replay_is_refused_by_name(kafka: Versioned, site: Groups) -> None:
    if kafka.replays:
        pytest.skip("it can")
    site.back_up(*NAMES)
    kafka.cluster.admin.delete_topics(NAMES)
    with pytest.raises(RestoreRefused, match=r"demo.payments .*DescribeTransactions.*Kafka 3\.0"):
        prepared(site, "preserve")
