"""The records of a topic, read by an independent client (confluent-kafka), and the comparison of two readings.

Also the demo's consumer group, with the independent client as member: half-way through a topic before the loss, and
expected to continue from there after the restore.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from offsite.demo.data import ORDERS, QUIET
from offsite.model.errors import KafkaTimeout
from offsite.model.options import Isolation

AT_THE_END_MS = 10
"""Most milliseconds that a broker may hold back an empty answer. Half a second by default, twice in every reading."""

POLL_S = 1.0
IDLE_POLLS_MAX = 30
"""Silent polls in a row before a reading is given up: a local broker answers in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecord:
    """A record as seen by a consumer. `timestamp_type` in librdkafka's numbers: 0 none, 1 CreateTime, 2
    LogAppendTime."""

    offset: int
    timestamp_type: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def content(self) -> tuple[object, ...]:
        """The record without its offset."""
        return (self.timestamp_type, self.timestamp_ms, self.key, self.value, self.headers)


TopicRecords = Mapping[int, Sequence[ReadRecord]]
"""Records of one topic by partition; a partition without records has an empty sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicComparison:
    """Two readings of a topic, compared per partition in order. `difference` names the first difference, or is
    empty."""

    topic: str
    source_records: int
    restored_records: int
    difference: str

    @property
    def identical(self) -> bool:
        return not self.difference


def read_topic(bootstrap: str, topic: str, *, isolation: str = Isolation.READ_COMMITTED) -> TopicRecords:
    """All records visible to a consumer of `isolation` now. Raises `KafkaTimeout` when the broker falls silent."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "offsite-demo-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": AT_THE_END_MS,
            "isolation.level": isolation,
        }
    )
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
        records: dict[int, list[ReadRecord]] = {p: [] for p in partitions}
        for message in _messages_to_the_end(consumer, topic, len(partitions)):
            records[message.partition() or 0].append(_record(message))
        return records
    finally:
        consumer.close()


def compare_readings(
    topic: str, source: TopicRecords, restored: TopicRecords, *, offsets: bool = False
) -> TopicComparison:
    """Compare key, value, headers, timestamp and its type, in order; with `offsets` the offsets as well."""
    return TopicComparison(
        topic=topic,
        source_records=sum(map(len, source.values())),
        restored_records=sum(map(len, restored.values())),
        difference=next(_differences(source, restored, offsets=offsets), ""),
    )


def _differences(source: TopicRecords, restored: TopicRecords, *, offsets: bool) -> Iterator[str]:
    if source.keys() != restored.keys():
        yield f"partitions {sorted(source)} became {sorted(restored)}"
        return
    for partition, records in source.items():
        for before, after in zip(records, restored[partition], strict=False):
            if before.content() != after.content() or (offsets and before.offset != after.offset):
                yield f"partition {partition}, offset {before.offset}: {before} became {after}"
        if len(records) != len(restored[partition]):
            yield f"partition {partition}: {len(records)} records became {len(restored[partition])}"


def _messages_to_the_end(consumer: Consumer, topic: str, partition_count: int) -> Iterator[Message]:
    ended_partitions: set[int | None] = set()
    idle_polls = 0
    while len(ended_partitions) < partition_count:
        message = consumer.poll(POLL_S)
        if message is None:
            idle_polls += 1
            if idle_polls > IDLE_POLLS_MAX:
                raise KafkaTimeout(f"reading {topic} stalled", hint="is the broker still running?")
            continue
        idle_polls = 0
        error = message.error()
        if error is None:
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name is this one
            ended_partitions.add(message.partition())
        else:
            raise KafkaException(error)


def _record(message: Message) -> ReadRecord:
    timestamp_type, timestamp_ms = message.timestamp()
    return ReadRecord(
        offset=message.offset() or 0,
        timestamp_type=timestamp_type,
        timestamp_ms=timestamp_ms,
        key=message.key(),
        value=message.value(),
        headers=tuple(cast("list[tuple[str, bytes | None]]", message.headers() or [])),
    )


GROUP = "demo-shipping"
LIMIT_S = 30.0


def commit_half_way(bootstrap: str, orders: TopicRecords) -> None:
    """Commit the first half of every partition of the orders as read by the group."""
    positions = [
        TopicPartition(ORDERS.name, partition, records[len(records) // 2].offset)
        for partition, records in orders.items()
    ]
    with _member(bootstrap) as consumer:
        consumer.commit(offsets=positions, asynchronous=False)


def committed_offsets(bootstrap: str) -> Mapping[int, int]:
    """Partition of the orders → next offset of the group; negative without a commit."""
    partitions = [TopicPartition(ORDERS.name, partition) for partition in range(ORDERS.partitions)]
    with _member(bootstrap) as consumer:
        return {committed.partition: committed.offset for committed in consumer.committed(partitions, timeout=LIMIT_S)}


@contextmanager
def _member(bootstrap: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False, **QUIET})
    try:
        yield consumer
    finally:
        consumer.close()
