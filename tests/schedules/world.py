"""The topics that schedules back up and restore: made once on a broker, and then left as they are."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Producer

from offsite.demo.data import BASE_MS, DemoMessage, produce
from offsite.log.range import TopicPartition
from tests.integration.e2e.site import produce_to
from tests.integration.kafka.cluster import Cluster, wait_until
from tests.schedules.raw_log import RawLog, read_raw_log

_BATCH_RECORDS = 20
_VALUE_BYTES = 120
_transactional_ids = itertools.count()


@dataclass(frozen=True, kw_only=True)
class World:
    """`cluster` is the real one. `logs`: what each partition holds, to the byte."""

    cluster: Cluster
    topics: Sequence[str]
    logs: Mapping[TopicPartition, RawLog]

    def partitions(self, topics: Sequence[str]) -> list[TopicPartition]:
        return [key for key in sorted(self.logs) if key.topic in topics]


def make_world(bootstrap: str) -> World:
    cluster = Cluster(bootstrap)
    makers = (_plain, _cut_off, _with_transactions, _append_time, _compacted, _large, _almost_empty)
    topics = [make(cluster) for make in makers]
    partitions = [
        TopicPartition(topic=topic, partition=each.partition)
        for topic, metadata in cluster.admin.topics(topics).items()
        for each in metadata.partitions
    ]
    starts = cluster.admin.start_offsets(partitions)
    broker = cluster.config.bootstrap[0]
    logs = {key: read_raw_log(broker, key.topic, key.partition, log_start=starts[key]) for key in partitions}
    return World(cluster=cluster, topics=topics, logs=logs)


def _plain(cluster: Cluster) -> str:
    topic = cluster.make_topic(partitions=3)
    for partition in range(3):
        _write(cluster, topic, _numbered(0, 400, partition=partition), compression_type="lz4")
    return topic


def _cut_off(cluster: Cluster) -> str:
    """DeleteRecords cut inside a batch."""
    topic = cluster.make_topic()
    _write(cluster, topic, _numbered(0, 400))
    key = TopicPartition(topic=topic, partition=0)
    assert cluster.admin.delete_records({key: 133}) == {key: 133}
    return topic


def _with_transactions(cluster: Cluster) -> str:
    """Committed and aborted ones, the last thing in the log a marker."""
    topic = cluster.make_topic()
    settings = {"bootstrap.servers": cluster.bootstrap, "batch.num.messages": _BATCH_RECORDS, "log_level": 3}
    producer = Producer({**settings, "transactional.id": f"schedules-{next(_transactional_ids)}"})
    producer.init_transactions()
    for number in range(8):
        end = cluster.end(topic)
        producer.begin_transaction()
        produce(producer, topic, _numbered(number * 30, number * 30 + 30))
        producer.flush()
        (producer.abort_transaction if number % 3 == 1 else producer.commit_transaction)()
        wait_until(lambda: cluster.end(topic) == end + 31)  # noqa: B023  (awaited at once)
    return topic


def _append_time(cluster: Cluster) -> str:
    topic = cluster.make_topic(message_timestamp_type="LogAppendTime")
    _write(cluster, topic, _numbered(0, 200), compression_type="zstd")
    return topic


def _compacted(cluster: Cluster) -> str:
    """Full of gaps, and cleaned no more."""
    topic = cluster.make_topic(
        cleanup_policy="compact", segment_bytes=str(1024 * 1024), segment_ms="300", min_cleanable_dirty_ratio="0.01"
    )
    keyed = [DemoMessage(key=b"%d" % (n % 37), value=b"%d" % n, timestamp_ms=BASE_MS + n) for n in range(600)]
    _write(cluster, topic, keyed)

    def cleaned() -> bool:
        _write(cluster, topic, [DemoMessage(key=b"tick", value=b"x", timestamp_ms=BASE_MS)])
        log = read_raw_log(cluster.config.bootstrap[0], topic, 0, log_start=0)
        return sum(each.end - each.start for each in log.batches.values()) < log.end - 100

    wait_until(cleaned, limit_s=60)
    cluster.admin.alter_topic_configs({topic: {"cleanup.policy": "delete"}})
    return topic


def _large(cluster: Cluster) -> str:
    """Batches larger than what a Fetch is allowed in schedules."""
    topic = cluster.make_topic(partitions=2)
    for partition in range(2):
        values = [b"%06d" % n * 1000 for n in range(40)]
        large = [DemoMessage(key=None, value=each, timestamp_ms=BASE_MS, partition=partition) for each in values]
        _write(cluster, topic, large)
    return topic


def _almost_empty(cluster: Cluster) -> str:
    topic = cluster.make_topic(partitions=3)
    _write(cluster, topic, _numbered(0, 1, partition=1))
    return topic


def _numbered(start: int, end: int, *, partition: int = 0) -> Iterable[DemoMessage]:
    return [
        DemoMessage(
            key=b"%d" % n, value=b"%08d" % n * (_VALUE_BYTES // 8), timestamp_ms=BASE_MS + n, partition=partition
        )
        for n in range(start, end)
    ]


def _write(cluster: Cluster, topic: str, messages: Iterable[DemoMessage], **client: object) -> None:
    produce_to(cluster.bootstrap, topic, messages, batch_num_messages=_BATCH_RECORDS, **client)
