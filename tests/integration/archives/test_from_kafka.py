"""Exports straight from a cluster, judged by an independent client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from offsite.archives.export.plan import ExportRequest
from offsite.archives.export.run import ExportResult, export_of_cluster, open_target
from offsite.archives.formats import ReadOptions, WriteOptions
from offsite.archives.retention import RetentionLimits
from offsite.archives.retention_run import open_archive, plan_retention
from offsite.archives.retention_source import MirrorSource
from offsite.backup.outages import Outages
from offsite.demo.data import DemoMessage, read_topic
from offsite.kafka.cluster import connect
from offsite.kafka.protocol.metadata import NewTopic
from offsite.log.range import TopicPartition
from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption, OffsiteError, SourceTruncated, TopicReplaced
from offsite.model.ids import random_id
from offsite.repository.repository import Repository
from offsite.restore.options import RestoreWords, parse_restore
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from tests.inline_runner import InlineRunner
from tests.integration.archives.exchange import Exchange
from tests.integration.e2e.site import Site
from tests.integration.e2e.transactions import begun, with_transaction
from tests.integration.kafka.cluster import Cluster
from tests.processes import wait_until

SLOTS = 2
DAY_MS = 24 * 3_600_000


@pytest.fixture
def site(broker: SandboxInfo, tmp_path: Path) -> Site:
    repository = Repository.init(open_store(str(tmp_path / "site")))
    return Site(Cluster(broker.bootstrap), repository, InlineRunner())


def messages(count: int, *, first: int = 0, partition: int = 0) -> list[DemoMessage]:
    return [
        DemoMessage(key=b"%d" % n, value=b"value %d" % n, timestamp_ms=1_700_000_000_000 + n, partition=partition)
        for n in range(first, first + count)
    ]


def export(site: Site, exchange: Exchange, topic: str, format_name: str = "avro", **words: object) -> ExportResult:
    target = open_target(format_name, exchange.place("a"), WriteOptions())
    request = ExportRequest(point=parse_restore(RestoreWords(topics=[topic], **words)))  # type: ignore[typeddict-item]
    job = export_of_cluster(connect(site.cluster.bootstrap, None), target, request, slots=SLOTS)
    return job.run(job.plan(), InlineRunner())


def assert_same(site: Site, exchange: Exchange, topic: str, format_name: str = "avro") -> None:
    """The archive holds what a read_committed consumer sees."""
    exchange.bring_in(format_name, "a", "back")
    truth = read_topic(site.cluster.bootstrap, topic)
    found = exchange.content("back")
    for partition, records in truth.items():
        mine = [(r.offset, r.timestamp_ms, r.key, r.value) for r in found.get((topic, partition), ())]
        assert mine == [(r.offset, r.timestamp_ms, r.key, r.value) for r in records]


@pytest.mark.parametrize("format_name", ["avro", "kafka-backup"])
def test_a_cluster_is_exported_and_what_is_new_later(site: Site, exchange: Exchange, format_name: str) -> None:
    topic = site.make_topic(partitions=2)
    site.produce(topic, [*messages(30), *messages(20, partition=1)], linger_ms=200)
    assert export(site, exchange, topic, format_name).records == 50
    site.produce(topic, messages(15, first=30))
    assert export(site, exchange, topic, format_name).records == 15
    assert_same(site, exchange, topic, format_name)


def test_ranges_that_cut_through_batches_give_each_record_once(
    site: Site, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offsite.backup.copy_plan.TASK_BYTES_MIN", 300)
    topic = site.make_topic()
    site.produce(topic, messages(300), linger_ms=200, batch_num_messages=70)
    assert export(site, exchange, topic).records == 300
    assert_same(site, exchange, topic)


def test_aborted_records_are_left_out_and_open_transactions_wait(site: Site, exchange: Exchange) -> None:
    topic = site.make_topic()
    with_transaction(site, topic, messages(5), commit=True)
    with_transaction(site, topic, messages(5, first=5), commit=False)
    site.produce(topic, messages(5, first=10))
    producer = begun(site, topic, messages(5, first=15))
    site.produce(topic, messages(5, first=20))
    assert export(site, exchange, topic).records == 10
    assert_same(site, exchange, topic)
    producer.commit_transaction()  # answered before its markers are written
    wait_until(lambda: export(site, exchange, topic).records == 10, "the markers of the transaction")
    assert_same(site, exchange, topic)


def test_a_marker_behind_the_last_stable_offset_still_decides(site: Site, exchange: Exchange) -> None:
    topic = site.make_topic()
    aborted = begun(site, topic, messages(3))
    still_open = begun(site, topic, messages(3, first=3))
    aborted.abort_transaction()
    site.produce(topic, messages(2, first=6))
    assert export(site, exchange, topic).records == 0
    still_open.commit_transaction()  # answered before its markers are written
    wait_until(lambda: export(site, exchange, topic).records == 5, "the markers of the transaction")
    assert_same(site, exchange, topic)


def test_what_the_cluster_has_deleted_is_a_hole(site: Site, exchange: Exchange) -> None:
    topic = site.make_topic()
    site.produce(topic, messages(20), batch_num_messages=5)
    export(site, exchange, topic)
    site.produce(topic, messages(20, first=20), batch_num_messages=5)
    site.delete_before(topic, 33)
    result = export(site, exchange, topic)
    assert [(hole.start, hole.end) for hole in result.holes] == [(20, 33)]
    assert result.records == 7


@pytest.mark.parametrize(
    ("format_name", "again", "refusal"),
    [("avro", 30, TopicReplaced), ("jsonl", 0, TopicReplaced), ("kafka-backup", 10, SourceTruncated)],
)
def test_a_topic_made_anew_is_not_mixed_with_the_old_one(
    site: Site, exchange: Exchange, format_name: str, again: int, refusal: type[OffsiteError]
) -> None:
    """Archives that keep topic ids notice it always, others while the new topic is shorter."""
    topic = site.make_topic()
    site.produce(topic, messages(20))
    export(site, exchange, topic, format_name)
    site.cluster.admin.delete_topics([topic])
    site.cluster.admin.create_topics([NewTopic(name=topic, partitions=1)])
    site.produce(topic, messages(again))
    with pytest.raises(refusal):
        export(site, exchange, topic, format_name)


@contextmanager
def following(site: Site, exchange: Exchange, pattern: str) -> Iterator[list[ExportResult]]:
    """An export of the topics of `pattern` into the Avro archive `a` that follows; what it tells."""
    results: list[ExportResult] = []
    target, stop = open_target("avro", exchange.place("a"), WriteOptions()), Event()
    request = ExportRequest(point=parse_restore(RestoreWords(topics=[pattern])))
    job = export_of_cluster(connect(site.cluster.bootstrap, None), target, request, slots=SLOTS)
    outages = Outages(give_up_after_s=60, clock=SystemClock(), on_outage=lambda _: None)
    with ThreadPoolExecutor(max_workers=1) as pool:
        ended = pool.submit(
            job.follow, InlineRunner(), interval_s=0.05, stop=stop, on_result=results.append, outages=outages
        )
        try:
            yield results
        finally:
            stop.set()
            ended.result()


def test_an_export_that_follows_takes_up_new_topics_and_partitions(site: Site, exchange: Exchange) -> None:
    prefix = f"follow-{random_id()}"
    topics = old, new = f"{prefix}-old", f"{prefix}-new"
    site.cluster.admin.create_topics([NewTopic(name=old, partitions=1)])
    site.produce(old, messages(5))
    with following(site, exchange, f"{prefix}-*") as results:
        wait_until(lambda: sum(result.records for result in results) == 5, "the topic that is there")
        site.cluster.admin.create_topics([NewTopic(name=new, partitions=1)])
        site.produce(new, messages(7))
        wait_until(lambda: sum(result.records for result in results) == 12, "the new topic")
        admin = AdminClient({"bootstrap.servers": site.cluster.bootstrap})
        admin.create_partitions([NewPartitions(old, 2)])[old].result(timeout=30)
        site.produce(old, messages(3, first=5, partition=1))
        wait_until(lambda: sum(result.records for result in results) == 15, "the new partition")
    for topic in topics:
        assert_same(site, exchange, topic)


def test_an_archive_lets_go_what_the_topic_itself_let_go(site: Site, exchange: Exchange) -> None:
    topic = next(topic for topic in _topics_of_old_records(site, exchange) if _log_start(site, topic) == 0)
    target = open_archive("avro", exchange.place("a"), options=ReadOptions(), collect_after_ms=DAY_MS)
    mirroring = MirrorSource(cluster=connect(site.cluster.bootstrap, None).admin)

    def going() -> list[int]:
        plan = plan_retention(target, RetentionLimits(), clock=SystemClock(), mirroring=mirroring)
        return [each.file.start for each in plan.going if each.file.partition.topic == topic]

    assert going() == []
    site.delete_before(topic, 30)
    assert going() == [0]
    site.cluster.admin.delete_topics([topic])
    assert going() == []


def test_a_cluster_has_no_restore_points(site: Site, exchange: Exchange) -> None:
    with pytest.raises(BadOption, match="no restore points"):
        export(site, exchange, "orders", commit=3)


def _topics_of_old_records(site: Site, exchange: Exchange) -> Iterator[str]:
    """Topics whose first 40 of 60 records are older than the topic keeps them. The broker deletes these in a while,
    unless the young records are quicker: they lie in the same segment."""
    hour_ms, now_ms = 3_600_000, int(time.time() * 1000)
    for _ in range(5):
        topic = site.make_topic(**{"retention.ms": str(5 * hour_ms)})
        for first, age_ms in ((0, 10 * hour_ms), (20, 9 * hour_ms), (40, 0)):
            aged = [replace(each, timestamp_ms=now_ms - age_ms) for each in messages(20, first=first)]
            site.produce(topic, aged, linger_ms=200)
            export(site, exchange, topic)
        yield topic


def _log_start(site: Site, topic: str) -> int:
    partition = TopicPartition(topic=topic, partition=0)
    return site.cluster.admin.start_offsets([partition])[partition]
