"""Topics of every cleanup policy that are written to all the time, and all that brokers acknowledged of them.

Each partition has one idempotent writer and no transactions, so its records have the offsets 0, 1, 2 …: what is
remembered here, by an independent client, is every record that ever was in the log, whatever brokers delete later.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

LIMIT_S = 60.0
PARTITIONS = 2
KEYS = 30
_SEGMENTS = {"segment.ms": "1500", "file.delete.delay.ms": "1000"}
LAG_S = 3.0
"""Records younger than that make no older one of their key go."""
TOMBSTONE_S = LAG_S + 4.0
"""Tombstones younger than that are there."""
_CLEANER = {
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(int((TOMBSTONE_S - LAG_S) * 1000)),
    "min.compaction.lag.ms": str(int(LAG_S * 1000)),
}
POLICIES: Mapping[str, Mapping[str, str]] = {
    "time": {"cleanup.policy": "delete", "retention.ms": "6000"},
    "size": {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "60000"},
    "compact": {"cleanup.policy": "compact", **_CLEANER},
    "both": {"cleanup.policy": "compact,delete", "retention.ms": "12000", **_CLEANER},
    "keep": {"cleanup.policy": "delete", "retention.ms": "-1"},
}
"""Name of a topic to its settings, at the scale of seconds."""


@dataclass(frozen=True, slots=True)
class Row:
    """A record. `acked_s`: when the broker had it, at the latest."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    acked_s: float = 0.0

    def is_same(self, other: Row) -> bool:
        return (self.key, self.value, self.timestamp_ms) == (other.key, other.value, other.timestamp_ms)


@dataclass(slots=True, kw_only=True)
class WrittenTopic:
    """A topic: what was acknowledged, by partition and in order, from offset 0 on."""

    topic: str
    configs: Mapping[str, str]
    rows: dict[int, list[Row]] = field(default_factory=lambda: {number: [] for number in range(PARTITIONS)})

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.configs["cleanup.policy"]


class RetainedTopics:
    """All of them, and their writer, which rests `pause_s` seconds after each `burst` of records of each partition."""

    def __init__(self, bootstrap: str, prefix: str, rng: random.Random, *, burst: int, pause_s: float) -> None:
        self._bootstrap, self._rng, self._burst, self._pause_s = bootstrap, rng, burst, pause_s
        self.topics = {
            name: WrittenTopic(topic=f"{prefix}-{name}", configs={**configs, **_SEGMENTS})
            for name, configs in POLICIES.items()
        }
        self._over = threading.Event()
        self._faults: list[str] = []
        self._client = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._thread = threading.Thread(target=self._write, name="writer of retained topics")

    def start(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        new = [
            NewTopic(each.topic, num_partitions=PARTITIONS, config=dict(each.configs)) for each in self.topics.values()
        ]
        made: Mapping[str, Future[object]] = admin.create_topics(new)
        for each in made.values():
            each.result(LIMIT_S)
        self._thread.start()

    def stop(self) -> None:
        """All that was sent is acknowledged; the second time it does nothing."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
            assert not self._client.flush(LIMIT_S), "brokers did not acknowledge"
        assert not self._faults, self._faults[0]

    def low(self, topic: str, partition: int) -> int:
        """The first offset that brokers have."""
        client = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "retained", "log_level": 0})
        try:
            return int(client.get_watermark_offsets(TopicPartition(topic, partition), timeout=LIMIT_S)[0])
        finally:
            client.close()

    @property
    def records(self) -> int:
        return sum(len(rows) for each in self.topics.values() for rows in each.rows.values())

    def _write(self) -> None:
        while not self._over.wait(self._pause_s):
            for each in self.topics.values():
                for partition in each.rows:
                    for _ in range(self._burst):
                        self._send(each, partition)
            self._client.flush(LIMIT_S)

    def _send(self, to: WrittenTopic, partition: int) -> None:
        rng = self._rng
        key = b"k%d" % rng.randrange(KEYS) if to.is_compacted or rng.random() < 0.8 else None
        is_tombstone = to.is_compacted and rng.random() < 0.15
        value = None if is_tombstone else rng.randbytes(rng.randrange(8, 120))
        timestamp_ms = time.time_ns() // 1_000_000
        self._client.produce(
            to.topic,
            value,
            key,
            partition=partition,
            timestamp=timestamp_ms,
            on_delivery=partial(self._acknowledged, to, Row(key, value, timestamp_ms)),
        )
        self._client.poll(0)

    def _acknowledged(self, to: WrittenTopic, row: Row, error: KafkaError | None, message: Message) -> None:
        rows = to.rows[message.partition() or 0]
        if error is not None or message.offset() != len(rows):
            self._faults.append(f"{to.topic}: {error}, offset {message.offset()} after {len(rows)} records")
            return
        rows.append(replace(row, acked_s=time.time()))
