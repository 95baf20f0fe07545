"""A restore at the source's own offsets, on a second broker: the same log for consumers of both isolation levels."""

from __future__ import annotations

import pytest

from offsite.demo.data import BASE_MS, DemoMessage, read_topic
from offsite.engine.runner import Runner
from offsite.kafka.writer import PartitionWriter
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import FILLER_MAX_RECORDS, filler_batch
from offsite.repository.restores.layout import RestoreLayout
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.copies import Copy, clusters, messages
from tests.integration.e2e.site import Site
from tests.integration.kafka.cluster import wait_until

MANY = 5_000_000


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: offsets are the same whoever runs the tasks (`test_crash` has a Spark)."""
    return CrossingRunner()


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


def test_a_compacted_log_with_gaps_has_its_records_where_they_were(copy: Copy) -> None:
    site = copy.site
    topic = compacted_topic(site, rounds=6)
    site.back_up(topic)
    result = copy.restore(topic)
    assert result.verified
    copy.assert_the_same_log(topic)


def test_a_compacted_log_with_many_gaps_has_no_record_that_the_source_had_not(copy: Copy) -> None:
    site = copy.site
    topic = compacted_topic(site, rounds=60)
    site.back_up(topic)
    result = copy.restore(topic, offsets="auto")
    assert result.verified
    copy.assert_the_same_log(topic)


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
    copy.target.assert_config(topic, "message.timestamp.type", "LogAppendTime")


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


def test_what_a_backup_missed_leaves_its_offsets_free(copy: Copy) -> None:
    """Retention was faster than the second run, and cut the log inside a batch."""
    site = copy.site
    topic = site.make_topic()
    site.produce(topic, messages(0, 300), linger_ms=200)
    site.back_up(topic)
    site.produce(topic, messages(300, 800), linger_ms=200)
    site.delete_before(topic, 542)
    assert [(hole.start, hole.end) for hole in site.back_up().holes] == [(300, 542)]
    result = copy.restore(topic)
    assert (result.records, result.verified) == (558, True)
    assert copy.bounds(copy.target, topic) == [(0, 800)]
    kept = [*range(300), *range(542, 800)]
    restored = read_topic(copy.target.bootstrap, topic)[0]
    assert [(r.offset, r.value) for r in restored] == [(n, b"record %d" % n) for n in kept]


def test_auto_keeps_the_offsets_of_a_log_with_a_large_gap(copy: Copy) -> None:
    site = copy.site
    topic = site.make_topic()
    site.produce(topic, messages(0, 10))
    site.back_up(topic)
    use_up(site, topic, 30_000)
    site.produce(topic, messages(10, 20))
    site.delete_before(topic, 30_010)
    site.back_up()
    result = copy.restore(topic, offsets="auto")
    assert (result.records, result.verified) == (20, True)
    assert copy.bounds(copy.target, topic) == [(0, 30_020)]
    restored = read_topic(copy.target.bootstrap, topic)[0]
    assert [r.offset for r in restored] == [*range(10), *range(30_010, 30_020)]


def use_up(site: Site, topic: str, count: int, *, partition: int = 0) -> None:
    """Make the next record of the source one `count` offsets later, its log starting there."""
    key = TopicPartition(topic=topic, partition=partition)
    with PartitionWriter(site.cluster.router, key, on_ack=lambda *_: None) as writer:
        for first in range(0, count, FILLER_MAX_RECORDS):
            writer.send(filler_batch(min(count - first, FILLER_MAX_RECORDS)))
        writer.flush()
    site.delete_before(topic, site.cluster.end(topic, partition), partition=partition)


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


def keyed(key: int, value: bytes, *, time_ms: int = BASE_MS) -> DemoMessage:
    return DemoMessage(key=b"%d" % key, value=value, timestamp_ms=time_ms)
