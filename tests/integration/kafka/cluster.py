"""A broker as these tests see it: topics made, records written by an independent client, batches read back."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka import Producer as Client

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.config import KafkaConfig, parse_bootstrap
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.metadata import NewTopic
from offsite.kafka.reader import PartitionReader
from offsite.log.batch import BatchHeader, scan
from offsite.log.range import Chunk, Gap, Hole, LogRange, TopicPartition
from offsite.log.records.batch_records import decode
from offsite.log.records.record import Record
from offsite.model.cluster_settings import Acl

_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    header: BatchHeader
    data: bytes

    def records(self) -> list[Record]:
        return list(decode(memoryview(self.data), self.header))


class Cluster:
    def __init__(self, bootstrap: str, config: KafkaConfig | None = None) -> None:
        self.bootstrap = bootstrap
        self.config = config or KafkaConfig(bootstrap=parse_bootstrap(bootstrap))
        self.router = Router(self.config)
        self.admin = ClusterAdmin(self.router)

    def make_topic(self, *, partitions: int = 1, **configs: str) -> str:
        """A new topic whose leaders answer; `cleanup_policy="compact"` sets cleanup.policy. No name begins another:
        tests set rules for prefixes.

        A leader that has not heard of its topic refuses the first request of a producer. librdkafka sends a refused
        request again behind the next one, also with one request at a time; only idempotent producers keep order.
        """
        name = f"topic-{next(_numbers):05}"
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        self.admin.create_topics([NewTopic(name=name, partitions=partitions, configs=settings)])
        self.admin.end_offsets(TopicPartition(topic=name, partition=number) for number in range(partitions))
        return name

    def produce(self, topic: str, values: Iterable[bytes], *, key: bytes | None = None, **client: object) -> None:
        """Write through librdkafka, everything acknowledged; `compression_type="gzip"` sets compression.type."""
        settings = {name.replace("_", "."): value for name, value in client.items()}
        producer = Client({"bootstrap.servers": self.bootstrap, **settings})
        for value in values:
            producer.produce(topic, value, key=key, partition=0)
            producer.poll(0)
        assert producer.flush(60) == 0

    def add_acls(self, *rules: Acl) -> None:
        """Return when the broker goes by them: a controller answers before its brokers have heard."""
        assert self.admin.settings.create_acls(rules) == [""] * len(rules)
        wait_until(lambda: set(rules) <= set(self.admin.settings.acls()))

    def configs(self, topic: str) -> dict[str, str]:
        """What the broker says now. It may not have heard yet what its controller has answered already."""
        return dict(self.admin.topic_configs([topic])[topic])

    def assert_configs(self, topic: str, expected: Mapping[str, str]) -> None:
        """The topic has these settings of its own, and no other, as soon as the broker has heard of them."""
        _settle(lambda: self.configs(topic), dict(expected))

    def assert_config(self, topic: str, name: str, value: str) -> None:
        _settle(lambda: self.configs(topic).get(name), value)

    def end(self, topic: str, partition: int = 0) -> int:
        key = TopicPartition(topic=topic, partition=partition)
        return self.admin.end_offsets([key])[key]

    def whole(self, topic: str, partition: int = 0) -> LogRange:
        return LogRange(topic=topic, partition=partition, start=0, end=self.end(topic, partition))

    def read(self, log_range: LogRange) -> list[Batch]:
        """Every batch of the range, copied. Holes fail the test."""
        return list(batches_of(PartitionReader(self.router).read(log_range)))

    def records(self, topic: str) -> list[Record]:
        return [record for batch in self.read(self.whole(topic)) for record in batch.records()]


def batches_of(items: Iterator[Chunk | Hole | Gap]) -> Iterator[Batch]:
    for item in items:
        if isinstance(item, Gap):
            continue
        assert isinstance(item, Chunk), item
        for header in item.batches:
            data = bytes(item.data[header.position : header.position + header.size_bytes])
            (alone,) = scan(memoryview(data))
            yield Batch(header=alone, data=data)


def numbered(count: int, size_bytes: int = 100) -> list[bytes]:
    """Values that all differ, and do not compress to nothing."""
    return [(b"%09d" % number * (size_bytes // 9 + 1))[:size_bytes] for number in range(count)]


def _settle(ask: Callable[[], object], expected: object, *, limit_s: float = 60) -> None:
    """Ask until the answer is the expected one; the last answer fails the test."""
    deadline_s = time.monotonic() + limit_s
    while (found := ask()) != expected and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert found == expected


def wait_until(condition: Callable[[], bool], *, limit_s: float = 30, every_s: float = 0.02) -> None:
    """`every_s`: longer where a look costs what it waits for a part of its time."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, "waited too long"
        time.sleep(every_s)
