"""A cluster's description, and its topics made and deleted: brokers, topics with ids, partitions with leaders (the
Metadata API); the CreateTopics and DeleteTopics APIs, which the controller handles.

KRaft refuses a request that makes more than 10,000 metadata records (`MAX_RECORDS_PER_USER_OP`): `split_requests`
makes parts that a controller accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from offsite.kafka.config import BrokerAddress
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder, UnreadableError
from offsite.model.bounds import MAX_PARTITIONS

LOWEST_VERSION = 8
HIGHEST_VERSION = 10
_FLEXIBLE_VERSION = 9
_TOPIC_ID_VERSION = 10
_NO_ID = UUID(int=0)
_NO_LEADER = _NO_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    node_id: int
    address: BrokerAddress
    rack: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """One partition, and the node id of the leader. `leader` is -1 while the partition has no leader."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """One topic with partitions.

    `topic_id` is None from brokers before 2.8. `error_code` is not 0 when the broker would not describe the topic.
    `operations` has a bit for every operation that this client may do on the topic; 0 when not requested.
    """

    name: str
    topic_id: UUID | None
    internal: bool
    error_code: int
    partitions: tuple[PartitionMetadata, ...]
    operations: int = 0

    def allows(self, operation: int) -> bool:
        return bool(self.operations >> operation & 1)

    @property
    def replication_factor(self) -> int:
        return max((len(p.replicas) for p in self.partitions), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """The cluster. `operations` has a bit for every operation that this client may do on the cluster; 0 when not
    requested."""

    cluster_id: str
    controller_id: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, TopicMetadata]
    operations: int = 0

    def allows(self, operation: int) -> bool:
        return bool(self.operations >> operation & 1)


def metadata_request(
    topics: Sequence[str] | None, *, version: int, operations: bool = False
) -> Request[ClusterMetadata]:
    """Ask for `topics`; None: all topics; empty: brokers only. Never creates a topic.

    `operations`: also ask for the client's rights on every topic, and on the cluster (KIP-430).
    """
    flexible = version >= _FLEXIBLE_VERSION

    def put_topic(out: Encoder, topic: str) -> None:
        if version >= _TOPIC_ID_VERSION:
            out.uuid(_NO_ID)
        out.string(topic).end()

    encoder = Encoder(flexible=flexible).array(topics, put_topic)
    encoder.boolean(False).boolean(operations).boolean(operations)  # first flag: create missing topics
    return Request(
        api=Api.METADATA,
        version=version,
        body=encoder.end().done(),
        flexible=flexible,
        read=lambda answer: _cluster(answer, version),
    )


def _cluster(answer: Decoder, version: int) -> ClusterMetadata:
    brokers = answer.array(_broker)
    cluster_id, controller_id = answer.string(), answer.i32()
    topics = answer.array(lambda topic: _topic(topic, version))
    operations = answer.i32()
    return ClusterMetadata(
        cluster_id=cluster_id,
        controller_id=controller_id,
        brokers={broker.node_id: broker for broker in brokers},
        topics={topic.name: topic for topic in topics},
        operations=max(0, operations),  # the least integer says that it was not asked
    )


def _broker(answer: Decoder) -> Broker:
    node_id = answer.i32()
    address = BrokerAddress(host=answer.string(), port=answer.i32())
    broker = Broker(node_id=node_id, address=address, rack=answer.string())
    answer.end()
    return broker


def _topic(answer: Decoder, version: int) -> TopicMetadata:
    error_code, name = answer.i16(), answer.string()
    topic_id = answer.uuid() if version >= _TOPIC_ID_VERSION else _NO_ID
    internal = answer.boolean()
    partitions = sorted(answer.array(_partition), key=lambda partition: partition.partition)
    operations = answer.i32()
    answer.end()
    return TopicMetadata(
        name=name,
        topic_id=None if topic_id == _NO_ID else topic_id,
        internal=internal,
        error_code=error_code,
        partitions=tuple(partitions),
        operations=max(0, operations),  # the least integer says that it was not asked
    )


def _partition(answer: Decoder) -> PartitionMetadata:
    answer.i16()  # error code: a missing leader also shows as leader -1, and further errors do not matter here
    partition, leader, leader_epoch = answer.i32(), answer.i32(), answer.i32()
    replicas, in_sync = tuple(answer.array(Decoder.i32)), tuple(answer.array(Decoder.i32))
    answer.array(Decoder.i32)  # offline replicas
    answer.end()
    if not 0 <= partition < MAX_PARTITIONS or leader < _NO_LEADER or leader_epoch < _NO_EPOCH:
        raise UnreadableError(f"partition {partition}, led by {leader} in epoch {leader_epoch}")
    return PartitionMetadata(
        partition=partition, leader=leader, leader_epoch=leader_epoch, replicas=replicas, in_sync=in_sync
    )


CREATE_VERSION = 4
DELETE_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. `replication_factor` -1: the cluster's default."""

    name: str
    partitions: int
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOutcome:
    """The result for one topic: `error_code` 0 means success."""

    name: str
    error_code: int
    detail: str = ""


def create_topics_request(
    topics: Iterable[NewTopic], *, timeout_ms: int, validate_only: bool = False
) -> Request[Sequence[TopicOutcome]]:
    body = Encoder().array(topics, _put_topic).i32(timeout_ms).boolean(validate_only).done()
    return Request(api=Api.CREATE_TOPICS, version=CREATE_VERSION, body=body, read=_read_created)


def delete_topics_request(names: Iterable[str], *, timeout_ms: int) -> Request[Sequence[TopicOutcome]]:
    body = Encoder().array(names, Encoder.string).i32(timeout_ms).done()
    return Request(api=Api.DELETE_TOPICS, version=DELETE_VERSION, body=body, read=_read_deleted)


def _put_topic(out: Encoder, topic: NewTopic) -> None:
    out.string(topic.name).i32(topic.partitions).i16(topic.replication_factor)
    out.array([], Encoder.i32)  # no replica assignment of our own
    out.array(topic.configs.items(), lambda _, setting: out.string(setting[0]).string(setting[1]))


def _read_created(answer: Decoder) -> Sequence[TopicOutcome]:
    return answer.array(lambda topic: TopicOutcome(name=topic.string(), error_code=topic.i16(), detail=topic.string()))


def _read_deleted(answer: Decoder) -> Sequence[TopicOutcome]:
    return answer.array(lambda topic: TopicOutcome(name=topic.string(), error_code=topic.i16()))


T = TypeVar("T")

RECORDS_MAX = 5_000
"""Half of the limit, because the count is offsite's own: one record per topic, partition, setting and rule."""


def split_requests(items: Iterable[T], records: Callable[[T], int], *, most: int = RECORDS_MAX) -> Iterator[list[T]]:
    """Yield `items` in order, in lists of at most `most` records. An item with more records forms a list alone."""
    portion: list[T] = []
    room = most
    for item in items:
        if portion and records(item) > room:
            yield portion
            portion, room = [], most
        portion.append(item)
        room -= records(item)
    if portion:
        yield portion
