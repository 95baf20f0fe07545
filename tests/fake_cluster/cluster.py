"""A cluster of one broker in the test's own process: uses are tested with it where no Kafka is needed.

It keeps topics, logs of real record batches, settings, groups and transactions in memory, and answers Kafka's wire
protocol on a loopback socket (`server.serving`), so every room of offsite runs as it is and nothing is patched. It is
a double for such tests: it judges nothing about Kafka, refuses little that a broker refuses, and what it lets
pass is no evidence that a broker would. What Kafka really does is asked of a real one, in tests/integration.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import Cluster
from offsite.kafka.config import BrokerAddress, KafkaConfig
from offsite.kafka.net.routing import shared_router
from offsite.kafka.protocol.broker_errors import (
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from tests.batches import FIRST_TIME_MS
from tests.fake_cluster.partition_log import PartitionLog, RefusedError

TOPIC_DEFAULTS = {
    "cleanup.policy": "delete",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
}
DENIED = TOPIC_AUTHORIZATION_FAILED
"""The error code what stops one partition at once, for good, and no other."""
BROKER_CONFIGS = {"log.retention.hours": "168", "log.retention.bytes": "-1", "log.cleanup.policy": "delete"}

_numbers = itertools.count()


@dataclass
class FakeTopic:
    name: str
    partitions: list[PartitionLog]
    configs: dict[str, str]
    replication_factor: int = 1
    topic_id: UUID = field(default_factory=uuid4)

    @property
    def is_internal(self) -> bool:
        return self.name.startswith("__")


@dataclass
class FakeGroup:
    """With a state other than Empty it has members, and its commits are refused to others. `offsets` of a share group
    are its positions, `reset` is its share.auto.offset.reset."""

    kind: str = "classic"
    state: str = "Empty"
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    reset: str = ""


@dataclass
class FakeTransaction:
    producer_id: int
    epoch: int
    state: str = "Empty"
    partitions: set[TopicPartition] = field(default_factory=set)


THE_CLUSTER = "kafka-cluster"
OF_THE_BROKER, OF_ALL_BROKERS = 2, 3
"""Kafka's codes of where a setting comes from."""


class FakeCluster:
    """Served by `tests.fake_cluster.server.serving`. Tests change it between calls of what they test, never during one.

    `failing`: API and partition → the error code it is answered with, after the first `passing` requests. `forbidden`:
    topic, or `THE_CLUSTER`, → codes of operations (AclOperation) that we may not do on it. `advertised`: where its
    broker says that it is, None for where it is. `knows_brokers` is False of a broker that has just begun. `hidden`:
    topics that we may not describe. `unlisted`: groups that moved to another coordinator while they were listed.
    `refused_settings`: no topic is made with these. `takes_only_aborts`: from clients, as Redpanda. `answering` is
    cleared where it is to take requests and to answer none, as a broker that is frozen; this may be changed during a
    call. `acls` is None without an authorizer; a rule is (resource type, name, pattern, principal, host, operation,
    permission), in Kafka's codes. `newest_versions` of APIs, by their keys, are told instead of those that it answers,
    to clients that connect then.
    `dynamic`: what was set while brokers ran, `configured`: what has settings besides topics, by Kafka's codes.
    `set_configs`: what was set, by type and name of resources other than topics. `has_share_groups`: as Kafka 4.1,
    which sets no positions and says nothing of it; with `sets_positions` as Kafka 4.2.
    """

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.address = BrokerAddress(host="127.0.0.1", port=0)
        self.advertised: BrokerAddress | None = None
        self.knows_brokers = True
        self.topics: dict[str, FakeTopic] = {}
        self.groups: dict[str, FakeGroup] = {}
        self.unlisted: set[str] = set()
        self.transactions: dict[str, FakeTransaction] = {}
        self.acls: list[tuple[int, str, int, str, str, int, int]] | None = None
        self.quotas: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
        self.scram_users: dict[str, tuple[int, int]] = {}
        self.dynamic: dict[int, list[str]] = {OF_THE_BROKER: [], OF_ALL_BROKERS: []}
        self.configured: dict[int, list[str]] = {}
        self.set_configs: dict[tuple[int, str], dict[str, str]] = {}
        self.failing: dict[tuple[Api, TopicPartition], int] = {}
        self.passing: dict[tuple[Api, TopicPartition], int] = {}
        self.forbidden: dict[str, set[int]] = {}
        self.hidden: set[str] = set()
        self.refused_settings: set[str] = set()
        self.takes_only_aborts = False
        self.newest_versions: dict[int, int] = {}
        self.has_share_groups = self.sets_positions = False
        self.answering = threading.Event()
        self.answering.set()
        self._producer_ids = itertools.count(1000)
        self._number = next(_numbers)

    @property
    def config(self) -> KafkaConfig:
        """Its client id tells it from an earlier one at the same port: connections and leaders are kept by it."""
        return KafkaConfig(bootstrap=(self.address,), client_id=f"offsite-{self._number}", request_timeout_ms=10_000)

    @property
    def admin(self) -> ClusterAdmin:
        return ClusterAdmin(shared_router(self.config))

    @property
    def connected(self) -> Cluster:
        """As a use is given it."""
        return Cluster(config=self.config, admin=self.admin)

    def make_topic(self, name: str, *, partitions: int = 1, **configs: str) -> FakeTopic:
        """`cleanup_policy="compact"` sets cleanup.policy."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        self.topics[name] = FakeTopic(name, [PartitionLog() for _ in range(partitions)], settings)
        return self.topics[name]

    def remake_topic(self, name: str) -> FakeTopic:
        """Deleted, and made anew: another incarnation."""
        old = self.topics.pop(name)
        self.topics[name] = FakeTopic(name, [PartitionLog() for _ in old.partitions], old.configs)
        return self.topics[name]

    def write(
        self,
        topic: str,
        values: Iterable[bytes | None],
        *,
        partition: int = 0,
        key: bytes | None = b"k",
        time_ms: int | None = None,
    ) -> None:
        """One batch; each record's time is its offset past a fixed time, or all have the same `time_ms`."""
        log = self.topics[topic].partitions[partition]
        log.put(bytes(encode(_records(values, log.end, key, time_ms))))

    def write_in_transaction(
        self,
        topic: str,
        values: Iterable[bytes],
        *,
        committed: bool | None,
        partition: int = 0,
        producer_id: int | None = None,
        time_ms: int | None = None,
    ) -> None:
        """One batch and its marker; with `committed` None the transaction stays open. Times as of `write`."""
        log = self.topics[topic].partitions[partition]
        producer_id = self.next_producer_id() if producer_id is None else producer_id
        log.put(
            bytes(
                encode(
                    _records(values, log.end, b"k", time_ms),
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=0,
                    is_transactional=True,
                )
            )
        )
        if committed is not None:
            log.end_transaction(producer_id, 0, committed=committed)

    def read(self, topic: str, partition: int = 0) -> list[Record]:
        """All records but markers, whatever became of their transactions."""
        return self.topics[topic].partitions[partition].records()

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        return [record.value for record in self.read(topic, partition)]

    def end_open_transactions(self) -> None:
        """As brokers do when they have been open for too long: aborted, and their producers shut out."""
        for known in self.transactions.values():
            if known.state == "Ongoing":
                known.epoch += 1
                self.end(known, committed=False)

    def end(self, known: FakeTransaction, *, committed: bool) -> None:
        for each in known.partitions:
            self.log(each).end_transaction(known.producer_id, known.epoch, committed=committed)
        known.state = "CompleteCommit" if committed else "CompleteAbort"
        known.partitions = set()

    def commit_group(self, group: str, topic: str, offsets: Sequence[int], *, state: str = "Empty") -> None:
        """Offsets by partition, from 0 on."""
        found = self.groups.setdefault(group, FakeGroup())
        found.state = state
        found.offsets |= {TopicPartition(topic=topic, partition=n): offset for n, offset in enumerate(offsets)}

    def committed(self, group: str, topic: str) -> dict[int, int]:
        offsets = self.groups[group].offsets if group in self.groups else {}
        return {key.partition: offset for key, offset in offsets.items() if key.topic == topic}

    def log(self, key: TopicPartition, *, api: Api | None = None) -> PartitionLog:
        """Raises `RefusedError` where there is none, and what `failing` says of it."""
        if api is not None and (code := self.failing.get((api, key))):
            if not self.passing.get((api, key)):
                raise RefusedError(code)
            self.passing[api, key] -= 1
        topic = self.topics.get(key.topic)
        if topic is None or key.partition >= len(topic.partitions):
            raise RefusedError(UNKNOWN_TOPIC_OR_PARTITION)
        return topic.partitions[key.partition]

    def name_of(self, topic_id: UUID) -> str:
        for topic in self.topics.values():
            if topic.topic_id == topic_id:
                return topic.name
        raise RefusedError(UNKNOWN_TOPIC_ID)

    def next_producer_id(self) -> int:
        return next(self._producer_ids)


def _records(values: Iterable[bytes | None], start: int, key: bytes | None, time_ms: int | None = None) -> list[Record]:
    times_ms = (FIRST_TIME_MS + offset if time_ms is None else time_ms for offset in itertools.count(start))
    return [
        Record(offset=offset, timestamp_ms=at_ms, timestamp_type=0, key=key, value=value)
        for (offset, value), at_ms in zip(enumerate(values, start), times_ms, strict=False)
    ]
