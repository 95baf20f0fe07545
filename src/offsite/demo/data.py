"""The demo's data set: cases of real topics that backup tools get wrong. Written with confluent-kafka (librdkafka):
neither the writer nor the reader of the comparison is offsite's own code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

BASE_MS = 1_760_000_000_000
"""Timestamp of the first demo record: fixed, so that two runs write the same data."""
DAY_MS = 86_400_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
QUIET = {"log_level": 3}
"""Errors only (syslog's level): librdkafka also reports waits for a coordinator, and dropped events."""
TRANSACTIONS = 6
ABORTED_TRANSACTION = 3

Header = tuple[str, bytes | None]


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
