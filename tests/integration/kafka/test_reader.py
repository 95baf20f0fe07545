from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from time import monotonic
from uuid import uuid4

import pytest
from confluent_kafka import Producer as Client

from offsite.kafka.net.routing import ConnectionPool, Router
from offsite.kafka.read_task import ReadTask
from offsite.kafka.reader import PartitionReader
from offsite.log.range import Chunk, Hole, LogRange, TopicPartition
from offsite.model.errors import NoEvidence, NoSuchTopic, TopicReplaced
from offsite.model.units import MIB
from tests.integration.kafka.cluster import Cluster, batches_of, numbered, wait_until


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_of_every_codec_are_read_as_they_are(cluster: Cluster, codec: str) -> None:
    topic = cluster.make_topic()
    cluster.produce(topic, numbered(2000), compression_type=codec, linger_ms=5)
    records = cluster.records(topic)
    assert [record.value for record in records] == numbered(2000)
    assert [record.offset for record in records] == list(range(2000))


def test_ranges_side_by_side_hold_each_batch_exactly_once(cluster: Cluster) -> None:
    topic = cluster.make_topic()
    cluster.produce(topic, numbered(3000), batch_num_messages=7)
    whole = cluster.read(cluster.whole(topic))
    edges = [0, 1, 500, 501, 1750, 2999, 3000]
    parts = [
        batch
        for start, end in pairwise(edges)
        for batch in cluster.read(LogRange(topic=topic, partition=0, start=start, end=end))
    ]
    assert parts == whole


def test_a_range_much_larger_than_one_fetch_is_read_whole(cluster: Cluster) -> None:
    topic = cluster.make_topic()
    cluster.produce(topic, numbered(4000, 10_000), batch_size=500_000, linger_ms=20)
    seen = [record.value for record in cluster.records(topic)]
    assert seen == numbered(4000, 10_000)


def test_aborted_data_and_markers_are_read_as_well(cluster: Cluster) -> None:
    topic = cluster.make_topic()
    client = Client({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    client.init_transactions()
    for outcome in (client.commit_transaction, client.abort_transaction, client.commit_transaction):
        client.begin_transaction()
        for value in numbered(50):
            client.produce(topic, value, partition=0)
        client.flush()
        outcome()
    wait_until(lambda: cluster.end(topic) == 153)  # the answer to the client comes before the marker
    batches = cluster.read(cluster.whole(topic))
    markers = [batch.header.is_control for batch in batches]
    assert markers.count(True) == 3
    assert sum(len(b.records()) for b in batches if not b.header.is_control) == 150
    assert batches[-1].header.next_offset == 153


def test_a_compacted_log_is_read_to_its_end(cluster: Cluster) -> None:
    topic = cluster.make_topic(
        cleanup_policy="compact",
        segment_bytes=str(MIB),
        min_cleanable_dirty_ratio="0.001",
        max_compaction_lag_ms="100",
        segment_ms="100",
    )
    for _ in range(3):
        cluster.produce(topic, numbered(300, 5000), key=b"same", batch_num_messages=1, enable_idempotence=True)
    whole = cluster.whole(topic)
    while sum(batch.header.record_count for batch in cluster.read(whole)) > 700:
        cluster.produce(topic, [b"x"], key=b"other")
    batches = cluster.read(whole)
    assert batches[-1].header.base_offset < whole.end
    assert cluster.read(replace(whole, end=5)) == [each for each in batches if each.header.base_offset < 5]


def test_a_record_larger_than_a_fetch_is_read(cluster: Cluster) -> None:
    topic = cluster.make_topic(max_message_bytes=str(20 * MIB))
    values = [b"small", b"x" * int(6.9 * MIB), b"y" * (18 * MIB), b"small"]
    cluster.produce(topic, values, message_max_bytes=19 * MIB)
    assert [record.value for record in cluster.records(topic)] == values


def test_what_retention_took_is_a_hole_and_reading_goes_on_inside_a_batch(cluster: Cluster) -> None:
    topic = cluster.make_topic()
    cluster.produce(topic, numbered(2000), batch_num_messages=500)
    key = TopicPartition(topic=topic, partition=0)
    whole = cluster.whole(topic)
    before = cluster.read(whole)
    middle = before[1].header.base_offset + 3
    assert cluster.admin.delete_records({key: middle}) == {key: middle}
    first, *rest = PartitionReader(cluster.router).read(whole)
    assert first == Hole(topic=topic, partition=0, start=0, end=middle, reason="retention")
    assert list(batches_of(PartitionReader(cluster.router).read(replace(whole, start=middle)))) == before[1:]
    assert sum(len(item.batches) for item in rest if isinstance(item, Chunk)) == len(before) - 1


def test_a_range_wholly_below_the_log_start_is_one_hole(cluster: Cluster) -> None:
    topic = cluster.make_topic()
    cluster.produce(topic, numbered(1500))
    cluster.admin.delete_records({TopicPartition(topic=topic, partition=0): 1000})
    log_range = LogRange(topic=topic, partition=0, start=100, end=200)
    assert list(PartitionReader(cluster.router).read(log_range)) == [
        Hole(topic=topic, partition=0, start=100, end=200, reason="retention")
    ]


def test_a_range_beyond_the_end_is_waited_for_and_then_fails(cluster: Cluster) -> None:
    topic = cluster.make_topic()
    cluster.produce(topic, numbered(10))
    log_range = LogRange(topic=topic, partition=0, start=5, end=200)
    router = Router(cluster.config)
    router.silent_partitions.add(log_range.topic_partition, monotonic())  # so that it is not waited for as long
    with pytest.raises(NoEvidence, match="high watermark is 10"):
        list(PartitionReader(router).read(log_range))


def test_a_topic_made_anew_is_not_read_as_the_one_planned(cluster: Cluster) -> None:
    topic = cluster.make_topic()
    cluster.produce(topic, numbered(10))
    old_id = cluster.admin.topics([topic])[topic].topic_id
    assert len(list(PartitionReader(cluster.router).read(cluster.whole(topic), topic_id=old_id))) == 1
    with pytest.raises(TopicReplaced):
        list(PartitionReader(cluster.router).read(cluster.whole(topic), topic_id=uuid4()))


def test_a_topic_that_is_not_there_is_said_so(cluster: Cluster) -> None:
    log_range = LogRange(topic="nowhere", partition=0, start=0, end=1)
    with pytest.raises(NoSuchTopic):
        list(PartitionReader(cluster.router).read(log_range))


def test_a_reader_left_in_the_middle_leaves_no_answer_behind_for_the_next(cluster: Cluster) -> None:
    topic = cluster.make_topic()
    cluster.produce(topic, numbered(4000, 2000), batch_size=16_000)
    router = Router(cluster.config, pool=ConnectionPool())
    reader = PartitionReader(router)
    items = reader.read(cluster.whole(topic))
    next(items)
    items.close()  # type: ignore[attr-defined]  # a generator
    assert list(batches_of(reader.read(cluster.whole(topic)))) == cluster.read(cluster.whole(topic))


def test_ranges_that_were_begun_ahead_are_read_as_they_are(cluster: Cluster) -> None:
    topic = cluster.make_topic()
    cluster.produce(topic, numbered(30), batch_num_messages=3)
    router = Router(cluster.config)
    ranges = [LogRange(topic=topic, partition=0, start=start, end=start + 10) for start in (0, 10, 20)]
    begun = [PartitionReader(router).begin_task(ReadTask(range=each)) for each in ranges]
    found = [bytes(item.data) for items in begun for item in items if isinstance(item, Chunk)]
    each_alone = (item for each in ranges for item in PartitionReader(router).read(each))
    assert found == [bytes(item.data) for item in each_alone if isinstance(item, Chunk)]


def test_who_only_begins_a_range_does_not_wait_for_what_is_not_there(cluster: Cluster) -> None:
    missing = ReadTask(range=LogRange(topic=f"missing-{uuid4().hex}", partition=0, start=0, end=1))
    began_s = monotonic()
    items = PartitionReader(Router(cluster.config)).begin_task(missing)
    begun_s = monotonic()
    with pytest.raises(NoSuchTopic):
        next(items)
    assert begun_s - began_s < (monotonic() - began_s) / 2
