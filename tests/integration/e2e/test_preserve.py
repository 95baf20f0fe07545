"""A restore at the source's own offsets, on a second broker: the same log for consumers of both isolation levels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest
from confluent_kafka import Producer

from offsite.kafka.writer import PartitionWriter
from offsite.log.filler import FILLER_KEY, FILLER_MAX_RECORDS, filler_batch
from offsite.log.range import TopicPartition
from offsite.model.errors import RestoreRefused
from offsite.model.selection import parse_selection
from offsite.repository.restore_layout import RestoreLayout
from offsite.sandbox import SandboxInfo
from offsite.services.demo.data import BASE_MS, Message, produce
from offsite.services.demo.truth import compare, read_topic
from offsite.services.restore import RestoreResult, prepare_restore, run_restore
from offsite.services.restore_report import report_plan
from offsite.services.restore_request import RestoreRequest
from tests.integration.e2e.site import Site
from tests.integration.e2e.transactions import begun, with_transaction
from tests.integration.kafka.cluster import Cluster, wait_until

MANY = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A source with its backups, and another cluster they are restored into under the same names."""

    site: Site
    target: Cluster

    def request(self, topic: str, offsets: str, **more: object) -> RestoreRequest:
        return RestoreRequest(selection=parse_selection([topic]), offsets=offsets, **more)  # type: ignore[arg-type]

    def restore(self, topic: str, *, offsets: str = "preserve", **more: object) -> RestoreResult:
        prepared = prepare_restore(self.site.backup, self.target.admin, self.request(topic, offsets, **more))
        return run_restore(prepared, admin=self.target.admin, kafka=self.target.config, runner=self.site.spark)

    def assert_the_same_log(self, topic: str, *, ignored_key: bytes | None = None) -> None:
        """Log start, log end, and every record at its offset as an independent client of either isolation sees it."""
        assert self.bounds(self.target, topic) == self.bounds(self.site.cluster, topic)
        for isolation in ("read_committed", "read_uncommitted"):
            source = read_topic(self.site.cluster.bootstrap, topic, isolation=isolation)
            restored = {
                partition: [record for record in records if ignored_key is None or record.key != ignored_key]
                for partition, records in read_topic(self.target.bootstrap, topic, isolation=isolation).items()
            }
            comparison = compare(topic, source, restored, offsets=True)
            assert comparison.identical, (isolation, comparison.difference[:1000])

    def filler(self, topic: str, offsets: str) -> str:
        """What a restore that keeps offsets would fill the gaps of partition 0 with."""
        prepared = prepare_restore(self.site.backup, self.target.admin, self.request(topic, offsets))
        plan = report_plan(prepared).topics[0].offsets
        assert plan.mode == "preserve"
        return plan.partitions[0].filler

    def bounds(self, cluster: Cluster, topic: str) -> list[tuple[int, int]]:
        numbers = range(len(cluster.admin.topics([topic])[topic].partitions))
        keys = [TopicPartition(topic=topic, partition=number) for number in numbers]
        starts, ends = cluster.admin.start_offsets(keys), cluster.admin.end_offsets(keys)
        return [(starts[key], ends[key]) for key in keys]


@pytest.fixture
def copy(site: Site, second_broker: SandboxInfo) -> Iterator[Copy]:
    target = Cluster(second_broker.bootstrap)
    before = set(target.admin.topics())
    yield Copy(site=site, target=target)
    target.admin.delete_topics(sorted(set(target.admin.topics()) - before - {"__transaction_state"}))


def test_a_log_that_starts_at_five_million_starts_there_again(copy: Copy) -> None:
    site = copy.site
    topic = site.make_topic(partitions=3)
    use_up(site, topic, MANY)
    use_up(site, topic, 1234, partition=2)
    site.produce(topic, messages(0, 500))
    site.back_up(topic)
    result = copy.restore(topic, offsets="auto")
    assert (result.records, result.verified) == (500, True)
    assert copy.bounds(copy.target, topic) == [(MANY, MANY + 500), (0, 0), (1234, 1234)]
    copy.assert_the_same_log(topic)


def test_a_log_that_starts_inside_a_batch_starts_there_again(copy: Copy) -> None:
    site = copy.site
    topic = site.make_topic()
    site.produce(topic, messages(0, 300), linger_ms=200)
    site.delete_before(topic, 137)
    site.back_up(topic)
    assert copy.restore(topic).records == 163
    copy.assert_the_same_log(topic)


def test_two_hundred_committed_and_twenty_aborted_transactions_are_replayed(copy: Copy) -> None:
    site = copy.site
    topic = site.make_topic()
    committed, aborted = replay_source(site, topic, 220)
    assert (committed, aborted) == (200, 20)
    site.back_up(topic)
    result = copy.restore(topic, offsets="auto")
    assert result.verified
    assert result.topics[topic].invisible_records > 0
    copy.assert_the_same_log(topic)
    markers = [[(b.header.base_offset, b.header.is_control) for b in c.read(c.whole(topic))] for c in clusters(copy)]
    assert markers[0] == markers[1]


def test_a_transaction_undecided_at_the_restore_point_is_aborted_in_the_place_of_its_last_record(copy: Copy) -> None:
    site = copy.site
    topic = site.make_topic()
    site.produce(topic, messages(0, 5))
    with_transaction(site, topic, messages(5, 10), commit=True)
    open_ones = [begun(site, topic, messages(10, 20)), begun(site, topic, messages(20, 21))]
    site.produce(topic, messages(30, 33))
    site.back_up(topic)
    result = copy.restore(topic)
    assert result.topics[topic].undecided_transactions == 2
    assert result.verified
    (source,), (restored,) = copy.bounds(site.cluster, topic), copy.bounds(copy.target, topic)
    assert restored == source
    seen = read_topic(copy.target.bootstrap, topic)[0]
    assert [(record.offset, record.value) for record in seen] == [
        *((n, b"record %d" % n) for n in range(10)),
        *((n - 8, b"record %d" % n) for n in range(30, 33)),
    ]
    for producer in open_ones:
        producer.abort_transaction()


def test_a_compacted_log_with_gaps_has_its_records_where_they_were(copy: Copy) -> None:
    site = copy.site
    topic = compacted_topic(site, rounds=6)
    site.back_up(topic)
    result = copy.restore(topic)
    assert result.verified
    copy.assert_the_same_log(topic)


def test_a_compacted_log_with_many_gaps_is_filled_with_tombstones_if_offsets_were_asked_for(copy: Copy) -> None:
    site = copy.site
    topic = compacted_topic(site, rounds=60)
    site.back_up(topic)
    assert copy.filler(topic, "auto") == "markers"
    assert copy.filler(topic, "preserve") == "tombstones"
    result = copy.restore(topic)
    assert result.verified
    copy.assert_the_same_log(topic, ignored_key=FILLER_KEY)


def test_records_that_brokers_dated_keep_offsets_and_times(copy: Copy) -> None:
    site = copy.site
    topic = site.make_topic(message_timestamp_type="LogAppendTime")
    site.produce(topic, messages(0, 100), linger_ms=50)
    site.produce(topic, messages(100, 200), linger_ms=50, compression_type="lz4")
    site.back_up(topic)
    assert copy.restore(topic).verified
    assert copy.bounds(copy.target, topic) == copy.bounds(site.cluster, topic)
    source, restored = (read_topic(cluster.bootstrap, topic)[0] for cluster in clusters(copy))
    assert [(r.offset, r.timestamp_ms, r.value) for r in source] == [
        (r.offset, r.timestamp_ms, r.value) for r in restored
    ]
    assert copy.target.admin.topic_configs([topic])[topic]["message.timestamp.type"] == "LogAppendTime"


def test_the_stored_map_leaves_every_offset_as_it_is(copy: Copy) -> None:
    site = copy.site
    topic = site.make_topic()
    site.produce(topic, messages(0, 100))
    site.delete_before(topic, 40)
    site.back_up(topic)
    restore = copy.restore(topic).restore
    (source,) = site.backup.state().segments
    offset_map = RestoreLayout(backup=site.backup.layout, restore=restore).get_map(site.backup.store, source)
    assert offset_map is not None
    assert [offset_map.lookup(offset).target for offset in (40, 77, 99, 100)] == [40, 77, 99, 100]
    assert offset_map.lookup(3).is_clamped


def test_auto_translates_what_cannot_be_preserved_and_says_why(copy: Copy) -> None:
    site = copy.site
    topic = site.make_topic()
    site.produce(topic, messages(0, 10))
    site.back_up(topic)
    use_up(site, topic, 30_000)
    site.produce(topic, messages(10, 20))
    site.delete_before(topic, 30_010)
    site.back_up()
    prepared = prepare_restore(site.backup, copy.target.admin, copy.request(topic, "auto"))
    verdict = report_plan(prepared).topics[0].offsets
    assert (verdict.mode, verdict.reason) == (
        "translate",
        "partition 0 has 30,000 offsets without records, too many to fill",
    )
    with pytest.raises(RestoreRefused, match="cannot keep its offsets: partition 0 has 30,000"):
        prepare_restore(site.backup, copy.target.admin, copy.request(topic, "preserve"))
    assert copy.restore(topic, offsets="auto").records == 20
    assert copy.bounds(copy.target, topic) == [(0, 20)]


def test_aborted_records_asked_for_as_plain_ones_are_translated(copy: Copy) -> None:
    site = copy.site
    topic = site.make_topic()
    with_transaction(site, topic, messages(0, 5), commit=False)
    site.back_up(topic)
    assert copy.restore(topic, offsets="auto", isolation="read_uncommitted").records == 5
    assert copy.bounds(copy.target, topic) == [(0, 5)]


def clusters(copy: Copy) -> tuple[Cluster, Cluster]:
    return copy.site.cluster, copy.target


def messages(start: int, end: int) -> Iterable[Message]:
    return (Message(key=b"%d" % n, value=b"record %d" % n, timestamp_ms=BASE_MS + n) for n in range(start, end))


def use_up(site: Site, topic: str, count: int, *, partition: int = 0) -> None:
    """Make the next record of the source one `count` offsets later, its log starting there."""
    key = TopicPartition(topic=topic, partition=partition)
    with PartitionWriter(site.cluster.router, key, on_ack=lambda *_: None) as writer:
        for first in range(0, count, FILLER_MAX_RECORDS):
            writer.send(filler_batch(min(count - first, FILLER_MAX_RECORDS), keyed=False))
        writer.flush()
    site.delete_before(topic, site.cluster.end(topic, partition), partition=partition)


def replay_source(site: Site, topic: str, count: int) -> tuple[int, int]:
    """Pairs of transactions that overlap, plain records between them; every eleventh is aborted."""
    producers = [transactional(site, f"{topic}-{name}") for name in ("a", "b", "c", "d")]
    outcomes = [number % 11 != 5 for number in range(count)]
    numbers = iter(range(1_000_000))
    for (first, second), pair in zip(
        pairwise(producers * (count // 4 + 1)), zip(outcomes[::2], outcomes[1::2], strict=True), strict=False
    ):
        both = list(zip((first, second), pair, strict=True))
        for producer, _ in both:
            producer.begin_transaction()
        for _ in range(2):
            for producer, _ in both:
                produce(producer, topic, one(next(numbers)))
                producer.flush()
        site.produce(topic, one(next(numbers)), linger_ms=0)
        for producer, commit in both:
            end = site.cluster.end(topic)
            producer.commit_transaction() if commit else producer.abort_transaction()
            wait_until(lambda end=end: site.cluster.end(topic) == end + 1)  # type: ignore[misc]
    return sum(outcomes), len(outcomes) - sum(outcomes)


def one(number: int) -> Iterable[Message]:
    return messages(number, number + 1)


def transactional(site: Site, name: str) -> Producer:
    settings = {"bootstrap.servers": site.cluster.bootstrap, "transactional.id": name, "linger.ms": 0, "log_level": 3}
    producer = Producer(settings)
    producer.init_transactions()
    return producer


def compacted_topic(site: Site, *, rounds: int) -> str:
    """Hundred keys and one more in each round, written again and again, and compacted: gaps between batches and inside
    of them."""
    topic = site.make_topic(
        cleanup_policy="compact", segment_bytes=str(1024 * 1024), segment_ms="500", min_cleanable_dirty_ratio="0.01"
    )
    for number in range(rounds):
        keys = range(number, number + 100)
        site.produce(topic, (keyed(key, b"%d in %d" % (key, number)) for key in keys), linger_ms=200)

    def is_compacted() -> bool:
        site.produce(topic, [keyed(-1, b"a later time begins another segment", time_ms=BASE_MS + 10_000)])
        return len(site.read(topic)[0]) < rounds + 120

    wait_until(is_compacted, limit_s=60)
    return topic


def keyed(key: int, value: bytes, *, time_ms: int = BASE_MS) -> Message:
    return Message(key=b"%d" % key, value=value, timestamp_ms=time_ms)
