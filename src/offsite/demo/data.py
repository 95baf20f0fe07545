"""The demo's data set: cases of real topics that backup tools get wrong; written, read and compared with confluent-
kafka (librdkafka): neither the writer nor the reader of the comparison is offsite's own code.

Also the demo's consumer group, with the independent client as member: half-way through a topic before the loss, and
expected to continue from there after the restore.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from offsite.model.errors import KafkaTimeout
from offsite.model.names import amount
from offsite.model.options import Isolation

BASE_MS = 1_760_000_000_000
"""Timestamp of the first demo record: fixed, so that two runs write the same data."""
DAY_MS = 86_400_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
QUIET = {"log_level": 3}
"""Errors only (syslog's level): librdkafka also reports waits for a coordinator, and dropped events."""
TRANSACTIONS = 6
ABORTED_TRANSACTION = 3

Header = tuple[str, bytes | None]

AT_THE_END_MS = 10
"""Most milliseconds that a broker may hold back an empty answer. Half a second by default, twice in every reading."""
POLL_S = 1.0
IDLE_POLLS_MAX = 30
"""Silent polls in a row before a reading is given up: a local broker answers in milliseconds."""
GROUP = "demo-shipping"
LIMIT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTopic:
    name: str
    holds: str
    partitions: int = 1
    config: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoMessage:
    """One record to write. `partition` is explicit, so that the data set does not depend on a partitioner."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    partition: int = 0
    headers: tuple[Header, ...] = ()


ORDERS = DemoTopic(name="demo.orders", holds="keys, JSON, repeated headers", partitions=3)
CODEC_MIX = DemoTopic(name="demo.codecs", holds="all five codecs in one partition")
PAYMENTS = DemoTopic(name="demo.payments", holds="6 transactions, 1 aborted", partitions=2)
CUSTOMERS = DemoTopic(name="demo.customers", holds="compacted, with tombstones", config={"cleanup.policy": "compact"})
HALF_EMPTY = DemoTopic(name="demo.half-empty", holds="two partitions, one empty", partitions=2)
ODDITIES = DemoTopic(name="demo.oddities", holds="null and empty fields, odd times, binary")
TOPICS = (ORDERS, CODEC_MIX, PAYMENTS, CUSTOMERS, HALF_EMPTY, ODDITIES)


def write_demo_data(bootstrap: str) -> None:
    """Create the demo topics and fill them; returns once every record is acknowledged."""
    _create_topics(bootstrap)
    _write(bootstrap, ORDERS.name, _orders(), {"compression.type": "lz4"})
    for codec in CODECS:
        _write(bootstrap, CODEC_MIX.name, _codec_messages(codec), {"compression.type": codec, "batch.num.messages": 50})
    _write_transactions(bootstrap)
    _write(bootstrap, CUSTOMERS.name, _customers(), {"compression.type": "zstd"})
    _write(bootstrap, HALF_EMPTY.name, _numbered(200, partition=1), {})
    _write(bootstrap, ODDITIES.name, _oddities(), {})


def _create_topics(bootstrap: str) -> None:
    topics = [NewTopic(t.name, num_partitions=t.partitions, replication_factor=1, config=t.config) for t in TOPICS]
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})  # a dropped admin client fails its futures
    for created in admin.create_topics(topics).values():
        created.result()


def _write(bootstrap: str, topic: str, messages: Iterable[DemoMessage], config: dict[str, str | int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, **config})
    produce(producer, topic, messages)
    producer.flush()


def produce(producer: Producer, topic: str, messages: Iterable[DemoMessage]) -> None:
    """Hand `messages` to the producer; they are acknowledged after its `flush`, or with its transaction."""
    for message in messages:
        producer.produce(
            topic,
            key=message.key,
            value=message.value,
            partition=message.partition,
            timestamp=message.timestamp_ms,
            headers=list(message.headers),
        )
        producer.poll(0)


def _write_transactions(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "demo-payments", **QUIET})
    producer.init_transactions()
    for transaction in range(TRANSACTIONS):
        producer.begin_transaction()
        for partition in range(PAYMENTS.partitions):
            produce(producer, PAYMENTS.name, _numbered(50, partition=partition, label=f"tx-{transaction}"))
        producer.flush()
        if transaction == ABORTED_TRANSACTION:
            producer.abort_transaction()
        else:
            producer.commit_transaction()


def _orders() -> Iterable[DemoMessage]:
    for n in range(3000):
        yield DemoMessage(
            key=f"customer-{n % 97}".encode(),
            value=b'{"order": %d, "total": "%d.%02d EUR"}' % (n, n % 500, n % 100),
            timestamp_ms=BASE_MS + n * 1000,
            partition=n % ORDERS.partitions,
            headers=(("trace", b"%08x" % n), ("hop", b"gateway"), ("hop", b"pricing")),
        )


def _codec_messages(codec: str) -> Iterable[DemoMessage]:
    for n in range(200):
        yield DemoMessage(key=codec.encode(), value=f"{codec} {n} ".encode() * 20, timestamp_ms=BASE_MS + n)


def _customers() -> Iterable[DemoMessage]:
    for n in range(1000):
        value = None if n % 10 == 0 else b"version %d" % n
        yield DemoMessage(key=b"customer-%d" % (n % 100), value=value, timestamp_ms=BASE_MS + n)


def _numbered(count: int, *, partition: int, label: str = "record") -> Iterable[DemoMessage]:
    for n in range(count):
        yield DemoMessage(key=b"%d" % n, value=f"{label} {n}".encode(), timestamp_ms=BASE_MS + n, partition=partition)


def _oddities() -> Iterable[DemoMessage]:
    fields = (None, b"", b"x", b"line\nbreak\x00\xff\xfe" * 100)
    for n, (key, value) in enumerate(product(fields, fields)):
        yield DemoMessage(key=key, value=value, timestamp_ms=BASE_MS - n * 30 * DAY_MS, headers=_odd_headers(n))


def _odd_headers(n: int) -> tuple[Header, ...]:
    choices: tuple[tuple[Header, ...], ...] = (
        (),
        (("a", b"1"), ("a", b"2")),
        (("b", b"1"), ("a", None), ("b", b"")),
        (("", b"empty name"), ("ключ", "значение".encode())),
    )
    return choices[n % len(choices)]


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
            yield f"partition {partition}: {amount(len(records), 'record')} became {len(restored[partition])}"


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
