"""Find the broker to ask: leaders of partitions and brokers by id, kept until found wrong, and connections to them.

A router raises errors worth a retry (`KafkaUnavailable`), and the caller decides with a `Backoff`. The router repeats
only questions that any broker can answer, when the connection breaks or the answer is unreadable.

Connections stay open between calls and between Spark tasks of one worker process. A connection returns to the pool only
when clean: usable and with nothing in flight. A forked child starts with an empty pool, because a socket shared with
the parent would mix up answers.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import TypeVar
from uuid import UUID

from offsite.kafka.config import BrokerAddress, KafkaConfig
from offsite.kafka.evidence import THROTTLED_MAX_S
from offsite.kafka.net.connection import Connection
from offsite.kafka.protocol.broker_errors import LEADER_NOT_AVAILABLE, broker_error
from offsite.kafka.protocol.metadata import HIGHEST_VERSION, LOWEST_VERSION, ClusterMetadata, metadata_request
from offsite.kafka.protocol.request import Api, Request
from offsite.log.range import TopicPartition
from offsite.model.errors import (
    KafkaProtocolError,
    KafkaTimeout,
    KafkaTooOld,
    KafkaUnavailable,
    KafkaUnreachable,
    LeaderUnavailable,
    NoSuchTopic,
)
from offsite.model.journal import decided

_Key = tuple[KafkaConfig, BrokerAddress]

IDLE_MAX = 4  # per broker: as many as a process uses at the same time


class ConnectionPool:
    """Thread-safe. A leased connection belongs to one thread until the lease ends."""

    def __init__(self) -> None:
        self._idle: dict[_Key, list[Connection]] = {}
        self._lock = Lock()
        self._owner = os.getpid()

    @contextmanager
    def lease(self, config: KafkaConfig, address: BrokerAddress) -> Iterator[Connection]:
        """An open connection to `address`, for the block. Raises the errors of `Connection.open`."""
        connection = self._take((config, address)) or Connection.open(config, address)
        try:
            yield connection
        finally:
            self._give_back((config, address), connection)

    def close(self) -> None:
        """Close idle connections. Leased connections close when returned to a full pool, or when broken."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()

    def _take(self, key: _Key) -> Connection | None:
        while True:
            with self._lock:
                self._forget_parent()
                connections = self._idle.get(key)
                if not connections:
                    return None
                connection = connections.pop()
            if not connection.stale:
                return connection
            connection.close()

    def _give_back(self, key: _Key, connection: Connection) -> None:
        if connection.usable and not connection.in_flight:
            with self._lock:
                self._forget_parent()
                connections = self._idle.setdefault(key, [])
                if len(connections) < IDLE_MAX:
                    connections.append(connection)
                    return
        connection.close()

    def _forget_parent(self) -> None:
        if self._owner != os.getpid():
            self._owner = os.getpid()
            self._idle = {}


shared_pool = ConnectionPool()


T = TypeVar("T")

GIVEN_UP_FOR_S = 2 * THROTTLED_MAX_S
"""How long `SilentPartitions` remembers: longer than any wait for another partition of the same run, and not for
ever."""


class SilentPartitions:
    """Partitions for which a process has just waited in vain. Later ranges of the same partition need not wait as long.

    Times are seconds of one monotonic clock.
    """

    def __init__(self) -> None:
        self._since_s: dict[TopicPartition, float] = {}

    def add(self, key: TopicPartition, now_s: float) -> None:
        self._since_s[key] = now_s

    def discard(self, key: TopicPartition) -> None:
        """Forget a partition that answered again."""
        self._since_s.pop(key, None)

    def holds(self, key: TopicPartition, now_s: float) -> bool:
        return now_s - self._since_s.get(key, -GIVEN_UP_FOR_S) < GIVEN_UP_FOR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The leader of a partition, with the leader epoch and the topic incarnation."""

    node_id: int
    address: BrokerAddress
    epoch: int
    topic_id: UUID | None


class Router:
    """One cluster as seen by one process."""

    def __init__(self, config: KafkaConfig, *, pool: ConnectionPool = shared_pool) -> None:
        self.config = config
        self._pool = pool
        self._brokers: dict[int, BrokerAddress] = {}
        self._leaders: dict[TopicPartition, Leader] = {}
        self.silent_partitions = SilentPartitions()
        self.boundless_partitions = SilentPartitions()
        """Partitions whose leader did not tell bounds: a following run asks again in every round."""

    def metadata(self, topics: Sequence[str] | None, *, operations: bool = False) -> ClusterMetadata:
        """Fetch metadata from any broker that knows its cluster, and keep the leaders for `leader`. None asks for all
        topics. Raises `KafkaUnavailable`, `Denied`.

        A broker that has just begun may answer without any broker, and without topics: that is no answer.
        """

        def ask(connection: Connection) -> ClusterMetadata:
            version = connection.highest_version(Api.METADATA, LOWEST_VERSION, HIGHEST_VERSION)
            metadata = connection.call(metadata_request(topics, version=version, operations=operations))
            if not metadata.brokers:
                raise KafkaUnreachable(f"{connection.address} knows no brokers of its cluster yet")
            return metadata

        metadata = self._ask_any(ask)
        self._keep(metadata)
        return metadata

    def leader(self, topic_partition: TopicPartition) -> Leader:
        """Return the leader, from memory or from the cluster. Raises `LeaderUnavailable` or `NoSuchTopic`."""
        leader = self._leaders.get(topic_partition)
        if leader is None:
            self._check_exists(topic_partition, self.metadata([topic_partition.topic]))
            leader = self._leaders.get(topic_partition)
        if leader is None:
            raise broker_error(LEADER_NOT_AVAILABLE, f"{topic_partition} has no leader")
        return leader

    def known_leader(self, topic_partition: TopicPartition) -> Leader | None:
        """Return the leader of the last metadata. Asks no broker."""
        return self._leaders.get(topic_partition)

    def by_leader(self, partitions: Iterable[TopicPartition]) -> Mapping[int, list[TopicPartition]]:
        """Leader's node id → share of `partitions`. Sends at most one metadata request, however many partitions.

        Raises `LeaderUnavailable`, `NoSuchTopic`.
        """
        topic_partitions = list(partitions)
        if unknown := {
            topic_partition.topic for topic_partition in topic_partitions if topic_partition not in self._leaders
        }:
            self.metadata(sorted(unknown))
        shares: dict[int, list[TopicPartition]] = {}
        for topic_partition in topic_partitions:
            shares.setdefault(self.leader(topic_partition).node_id, []).append(topic_partition)
        return shares

    def forget(self, topic_partition: TopicPartition) -> None:
        """Drop a leader found wrong: the next lookup asks the cluster."""
        self._leaders.pop(topic_partition, None)

    @contextmanager
    def lease_leader(self, topic_partition: TopicPartition) -> Iterator[Connection]:
        with self._pool.lease(self.config, self.leader(topic_partition).address) as connection:
            yield connection

    @contextmanager
    def lease_broker(self, node_id: int) -> Iterator[Connection]:
        """A connection to the broker. Raises `LeaderUnavailable` when the metadata lacks the broker."""
        if node_id not in self._brokers:
            self.metadata([])
        address = self._brokers.get(node_id)
        if address is None:
            raise LeaderUnavailable(f"broker {node_id} is not in the cluster", hint="is the broker down?")
        with self._pool.lease(self.config, address) as connection:
            yield connection

    def call_each(self, requests: Mapping[int, Request[T]]) -> Mapping[int, T]:
        """Ask several brokers, by node id, at the same time: as slow as the slowest broker, not as the sum."""
        with ExitStack() as stack:
            connections = {node_id: stack.enter_context(self.lease_broker(node_id)) for node_id in requests}
            for node_id, request in requests.items():
                connections[node_id].post(request)
            return {node_id: connections[node_id].collect(request) for node_id, request in requests.items()}

    def call_controller(self, request: Request[T]) -> T:
        controller = self.metadata([]).controller_id
        return self.call_each({controller: request})[controller]

    @contextmanager
    def lease_any(self) -> Iterator[Connection]:
        """A connection to any answering broker, with one attempt per broker. Raises the last error."""
        with ExitStack() as stack:
            yield self._enter_first(stack)

    def call(self, request: Request[T]) -> T:
        """Send a repeatable request to any broker."""
        return self._ask_any(lambda connection: connection.call(request))

    def _ask_any(self, ask: Callable[[Connection], T]) -> T:
        """Ask brokers until one answers: every broker at most twice, a slow broker only once. Raises the last error."""
        error: KafkaUnavailable = KafkaUnreachable("no brokers are known")
        candidates, slow = self._candidates(), set[BrokerAddress]()
        for address in [*candidates, *candidates]:
            if address in slow:
                continue
            try:
                with self._pool.lease(self.config, address) as connection:
                    return ask(connection)
            except KafkaTooOld:
                raise
            except KafkaTimeout as failure:
                slow.add(address)
                error = failure
            except (KafkaUnreachable, KafkaProtocolError) as failure:
                error = failure
            decided("retry", why=error.message, error=error.id)
        raise error

    def _enter_first(self, stack: ExitStack) -> Connection:
        error: KafkaUnavailable = KafkaUnreachable("no brokers are known")
        for address in self._candidates():
            try:
                return stack.enter_context(self._pool.lease(self.config, address))
            except KafkaUnavailable as failure:
                error = failure
        raise error

    def _candidates(self) -> list[BrokerAddress]:
        """Known brokers in random order, then the bootstrap addresses."""
        brokers = list(dict.fromkeys(self._brokers.values()))
        random.shuffle(brokers)
        return list(dict.fromkeys([*brokers, *self.config.bootstrap]))

    def _keep(self, metadata: ClusterMetadata) -> None:
        self._brokers = {node_id: broker.address for node_id, broker in metadata.brokers.items()}
        for topic in metadata.topics.values():
            for partition in topic.partitions:
                key = TopicPartition(topic=topic.name, partition=partition.partition)
                address = self._brokers.get(partition.leader)
                if address is None:
                    self._leaders.pop(key, None)
                else:
                    self._leaders[key] = Leader(
                        node_id=partition.leader,
                        address=address,
                        epoch=partition.leader_epoch,
                        topic_id=topic.topic_id,
                    )

    def _check_exists(self, topic_partition: TopicPartition, metadata: ClusterMetadata) -> None:
        topic = metadata.topics.get(topic_partition.topic)
        if topic is not None and topic.error_code not in {0, LEADER_NOT_AVAILABLE}:
            raise broker_error(topic.error_code, f"topic {topic_partition.topic}")
        partitions = () if topic is None else topic.partitions
        if partitions and all(partition.partition != topic_partition.partition for partition in partitions):
            raise NoSuchTopic(f"{topic_partition.topic} has no partition {topic_partition.partition}")


RACK_VARIABLE = "OFFSITE_CLIENT_RACK"
"""Environment variable of an executor: its rack, named as in `broker.rack`. The variable wins over `client.rack`."""

_routers: dict[tuple[int, KafkaConfig], Router] = {}


def shared_router(config: KafkaConfig) -> Router:
    """Return the process's router for the cluster, so that tasks of a reused Spark worker need no new metadata.

    Keyed by process id: a forked child makes a new router. Where the environment names the machine's rack, the router
    asks for the rack: executors stand in several racks, and the settings name only one.
    """
    config = replace(config, rack_id=os.environ.get(RACK_VARIABLE) or config.rack_id)
    return _routers.setdefault((os.getpid(), config), Router(config))
