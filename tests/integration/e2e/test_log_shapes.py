"""Logs that do not begin at 0, have gaps, or change between two runs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from offsite.backup.options import BackupRequest
from offsite.backup.plan import plan_backup
from offsite.backup.run import run_backup
from offsite.demo.data import BASE_MS, DemoMessage
from offsite.engine.runner import Runner
from offsite.kafka.protocol.metadata import NewTopic
from offsite.log.range import TopicPartition
from offsite.model.errors import NoSuchTopic
from offsite.model.options import MissingTopics
from offsite.model.selection import parse_selection
from offsite.overview.contents import show_backup
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.site import BACKUP, SLOTS, Site, new_name, values
from tests.integration.e2e.transactions import begun, with_transaction
from tests.integration.kafka.cluster import wait_until

BATCH = 100


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: the shape of a log is the same whoever runs the tasks (`test_records` has a Spark)."""
    return CrossingRunner()


def numbered(start: int, end: int, *, partition: int = 0) -> Iterable[DemoMessage]:
    return (
        DemoMessage(key=b"%d" % n, value=b"record %d" % n, timestamp_ms=BASE_MS + n, partition=partition)
        for n in range(start, end)
    )


@pytest.mark.parametrize("log_start", [1000, 1037, 1099, 1499], ids="log_start={}".format)
def test_a_log_that_begins_at_1000_or_inside_a_batch_comes_back_from_there(site: Site, log_start: int) -> None:
    topic = site.make_topic()
    for first in range(0, 1500, BATCH):
        site.produce(topic, numbered(first, first + BATCH), linger_ms=200)
    site.delete_before(topic, log_start)
    result = site.back_up(topic)
    assert result.complete
    assert show_backup(site.backup).topics[0].partitions[0].start == log_start
    restored = site.assert_comes_back(topic)
    assert restored.records == 1500 - log_start


def test_retention_between_two_runs_leaves_a_hole_that_is_reported_and_shown(site: Site) -> None:
    topic = site.make_topic()
    site.produce(topic, numbered(0, 500))
    assert site.back_up(topic).complete
    for first in range(500, 1500, BATCH):
        site.produce(topic, numbered(first, first + BATCH), linger_ms=200)
    site.delete_before(topic, 1042)
    result = site.back_up()
    assert not result.complete
    assert [(hole.start, hole.end, hole.reason) for hole in result.holes] == [(500, 1042, "retention")]
    assert show_backup(site.backup).holes == result.holes
    site.assert_verified()
    target = new_name(topic)
    prepared = site.prepare(topic, target)
    assert len(prepared.plan.holes) == 1
    site.restore(topic, target)
    assert values(site.read(target)) == [b"record %d" % n for n in (*range(500), *range(1042, 1500))]


def test_retention_that_takes_everything_leaves_one_hole_and_nothing_new(site: Site) -> None:
    topic = site.make_topic()
    site.produce(topic, numbered(0, 50))
    site.back_up(topic)
    site.produce(topic, numbered(50, 90))
    site.delete_before(topic, 90)
    result = site.back_up()
    assert [(hole.start, hole.end) for hole in result.holes] == [(50, 90)]
    assert result.records == 0
    site.produce(topic, numbered(90, 100))
    assert site.back_up().complete
    target = new_name(topic)
    assert site.restore(topic, target).records == 60


def test_an_empty_partition_among_full_ones_keeps_its_number(site: Site) -> None:
    topic = site.make_topic(partitions=5)
    for partition in (0, 2, 4):
        site.produce(topic, numbered(0, 200, partition=partition))
    site.back_up(topic)
    site.assert_comes_back(topic)


def test_a_topic_without_any_record_comes_back_with_its_partitions_and_settings(site: Site) -> None:
    topic = site.make_topic(partitions=3, cleanup_policy="compact,delete", retention_ms="12345678")
    site.back_up(topic)
    target = new_name(topic)
    assert site.restore(topic, target).records == 0
    assert len(site.read(target)) == 3
    site.cluster.assert_configs(
        target,
        {
            "cleanup.policy": "compact,delete",
            "retention.ms": "12345678",
        },
    )


@pytest.mark.timeout(120)
def test_a_compacted_topic_whose_tail_was_cleaned_comes_back(site: Site) -> None:
    topic = site.make_topic(
        cleanup_policy="compact",
        segment_bytes=str(1024 * 1024),
        segment_ms="500",
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms="0",
    )
    keyed = [DemoMessage(key=b"%d" % (n % 50), value=b"%d" % n, timestamp_ms=BASE_MS + n) for n in range(3000)]
    for first in range(0, 3000, BATCH):
        site.produce(topic, keyed[first : first + BATCH])
    tombstones = [DemoMessage(key=b"%d" % n, value=None, timestamp_ms=BASE_MS + 3000 + n) for n in range(25)]
    site.produce(topic, tombstones)

    def cleaned() -> bool:
        site.produce(topic, [DemoMessage(key=b"tick", value=b"x", timestamp_ms=BASE_MS + 4000)])
        return len(site.read(topic)[0]) < 60

    wait_until(cleaned, limit_s=90)
    site.back_up(topic)
    at_backup = site.read(topic)
    target = new_name(topic)
    site.assert_verified()
    site.restore(topic, target)
    latest = {record.key: record.value for record in at_backup[0] if record.value is not None}
    restored = {record.key: record.value for record in site.read(target)[0] if record.value is not None}
    assert restored == latest


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_aborted_records_are_left_out_or_kept_as_asked(site: Site, isolation: str) -> None:
    topic = site.make_topic()
    with_transaction(site, topic, numbered(0, 50), commit=True)
    with_transaction(site, topic, numbered(1000, 1100), commit=False)
    with_transaction(site, topic, numbered(50, 100), commit=True)
    site.back_up(topic)
    result = site.assert_comes_back(topic, isolation=isolation)
    kept = isolation == "read_uncommitted"
    assert result.records == 100 + 100 * kept
    assert result.topics[next(iter(result.topics))].invisible_records == 100 - 100 * kept


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_hanging_transaction_is_reported_and_left_out_or_kept_as_asked(site: Site, isolation: str) -> None:
    topic = site.make_topic()
    site.produce(topic, numbered(0, 10))
    producer = begun(site, topic, numbered(10, 30))
    site.produce(topic, numbered(30, 40))
    site.back_up(topic)
    target = new_name(topic)
    result = site.restore(topic, target, isolation=isolation)
    kept = isolation == "read_uncommitted"
    expected = range(40) if kept else (*range(10), *range(30, 40))
    assert values(site.read(target)) == [b"record %d" % n for n in expected]
    assert result.topics[target].undecided_transactions == (0 if kept else 1)
    producer.commit_transaction()
    wait_until(lambda: site.cluster.end(topic) == 41)
    site.back_up()
    site.assert_comes_back(topic)


def test_a_topic_deleted_and_made_again_is_a_new_incarnation(site: Site) -> None:
    topic = site.make_topic()
    site.produce(topic, numbered(0, 300))
    site.back_up(topic)
    site.cluster.admin.delete_topics([topic])
    site.cluster.admin.create_topics([new_topic(topic)])
    site.produce(topic, numbered(5000, 5400))
    assert site.back_up().records == 400
    site.assert_comes_back(topic)
    earlier = new_name(topic)
    site.restore(topic, earlier, commit=1)
    assert values(site.read(earlier)) == [b"record %d" % n for n in range(300)]


def test_a_topic_made_again_shorter_is_a_new_incarnation_too(site: Site) -> None:
    topic = site.make_topic()
    site.produce(topic, numbered(0, 300))
    site.back_up(topic)
    site.cluster.admin.delete_topics([topic])
    site.cluster.admin.create_topics([new_topic(topic)])
    site.produce(topic, numbered(5000, 5010))
    assert site.back_up().records == 10
    site.assert_comes_back(topic)


def test_partitions_added_between_runs_are_in_the_next_one(site: Site) -> None:
    topic = site.make_topic(partitions=2)
    site.produce(topic, numbered(0, 50, partition=1))
    site.back_up(topic)
    add_partitions(site, topic, 4)
    site.produce(topic, numbered(0, 70, partition=3))
    assert site.back_up().records == 70
    site.assert_comes_back(topic)
    earlier = new_name(topic)
    site.restore(topic, earlier, commit=1)
    assert [len(records) for records in site.read(earlier).values()] == [0, 50]


def test_what_comes_while_a_run_copies_is_in_the_next_one(site: Site) -> None:
    """Records, also in a partition that was empty, and a partition."""
    topic = site.make_topic(partitions=2)
    site.produce(topic, numbered(0, 100))
    request = BackupRequest(backup=BACKUP, selection=parse_selection([topic]))
    plan = plan_backup(site.repository, site.cluster.admin, request, slots=SLOTS)
    add_partitions(site, topic, 3)
    for partition, first in ((0, 100), (1, 0), (2, 0)):
        site.produce(topic, numbered(first, first + 20, partition=partition))
    result = run_backup(plan, repository=site.repository, kafka=site.cluster.config, runner=site.spark)
    assert (result.records, result.partitions, result.complete) == (100, 2, True)
    target = new_name(topic)
    site.restore(topic, target)
    assert [len(records) for records in site.read(target).values()] == [100, 0]
    assert site.back_up().records == 60
    site.assert_comes_back(topic)


def test_a_new_topic_that_matches_the_pattern_is_in_the_next_run(site: Site) -> None:
    first = site.make_topic()
    site.produce(first, numbered(0, 10))
    pattern = f"{first}*"
    site.back_up(pattern)
    second = f"{first}.more"
    site.cluster.admin.create_topics([new_topic(second)])
    site.produce(second, numbered(0, 20))
    assert site.back_up().records == 20
    site.assert_comes_back(second)


def test_a_named_topic_that_is_missing_fails_or_is_listed_as_asked(site: Site) -> None:
    topic = site.make_topic()
    site.produce(topic, numbered(0, 10))
    with pytest.raises(NoSuchTopic):
        site.back_up(topic, "nowhere")
    assert list(site.repository.backups()) == []
    result = site.back_up(topic, "nowhere", missing=MissingTopics.WARN)
    assert result.missing_topics == ("nowhere",)
    assert result.records == 10


def test_a_topic_that_vanished_after_the_first_run_can_still_be_restored(site: Site) -> None:
    kept, vanished = site.make_topic(), site.make_topic()
    site.produce(kept, numbered(0, 10))
    site.produce(vanished, numbered(0, 20))
    site.back_up(kept, vanished)
    before = site.read(vanished)
    site.cluster.admin.delete_topics([vanished])
    result = site.back_up()
    assert (result.deleted_topics, result.vanished_topics, result.complete) == ((vanished,), (vanished,), True)
    site.restore(vanished, vanished)
    site.assert_same(before, site.read(vanished))


def test_a_topic_that_a_pattern_no_longer_finds_is_named_and_the_run_is_complete(site: Site) -> None:
    first, other = site.make_topic(), site.make_topic()
    second = f"{first}.more"
    site.cluster.admin.create_topics([new_topic(second)])
    for topic in (first, second, other):
        site.produce(topic, numbered(0, 10))
    assert site.back_up(f"{first}*").vanished_topics == ()
    site.cluster.admin.delete_topics([second, other])
    wait_until(lambda: second not in site.cluster.admin.topics())
    assert site.plan().gone.vanished == (second,), "not the one that was never backed up"
    result = site.back_up()
    assert (result.vanished_topics, result.missing_topics, result.complete) == ((second,), (), True)
    assert site.back_up().vanished_topics == (second,), "each run says so"


def new_topic(name: str, *, partitions: int = 1) -> NewTopic:
    return NewTopic(name=name, partitions=partitions, configs={})


def add_partitions(site: Site, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": site.cluster.bootstrap})
    for grown in admin.create_partitions([NewPartitions(topic, count)]).values():
        grown.result()
    key = TopicPartition(topic=topic, partition=count - 1)
    wait_until(lambda: len(site.cluster.admin.topics([topic])[topic].partitions) == count)
    assert site.cluster.admin.end_offsets([key]) == {key: 0}
