"""The coordination topic of a set on a cluster: the announcements of its instances, read from the beginning,
and written like the tool's own producer.

Anybody may write to the topic, and brokers may lose acknowledged messages: nothing in the topic decides. It is read
with a limit, and read again from its beginning every minute, and after it was recreated or became shorter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from offsite.generations.decision import Announcement, Send, TakeBack
from offsite.generations.message import TOPIC, CoordinationMessage, Event, decode_message, encode_message, message_key
from offsite.generations.target import GenerationEnds
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import Cluster
from offsite.kafka.net.routing import Router, shared_router
from offsite.kafka.protocol.metadata import NewTopic
from offsite.kafka.reader import PartitionReader
from offsite.kafka.writer import PartitionWriter
from offsite.log.batch import BatchHeader
from offsite.log.range import Chunk, LogRange, TopicPartition
from offsite.log.records.batch_records import encode, iterate
from offsite.log.records.record import CREATE_TIME, Record, partition_for_key
from offsite.model.clock import Clock
from offsite.model.errors import BadOption, DamagedBatch, KafkaProtocolError
from offsite.model.journal import warned
from offsite.model.names import is_topic_name
from offsite.repository.generation_sets.entry import Instance
from offsite.repository.generation_sets.generation_set import GenerationSet

_SUFFIXES = {Instance.A: "activate", Instance.B: "passivate"}
"""Connector names as the tool wants them: first the instance that begins as the active one."""

MESSAGES_MAX = 200_000
"""Messages remembered at most: two for every partition number; a stranger may have written any number."""
REREAD_S = 60.0
OFFSETS_MAX = 1_000_000
"""Offsets of a partition that are read at most: two messages for every partition, until compaction runs."""
_BATCH_RECORDS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The names of the instances of a set. `fallback` names a topic where a partition has no record."""

    name: str
    fallback: str = ""

    def connector(self, instance: Instance) -> str:
        return f"{self.name}-{_SUFFIXES[instance]}"

    def instance(self, message: CoordinationMessage) -> Instance | None:
        """The addressed instance of the set, if any."""
        return next((instance for instance in Instance if self.connector(instance) == message.connector), None)

    def messages(self, send: Send, ends: GenerationEnds) -> Iterator[CoordinationMessage]:
        """The messages of an effect: a message for every partition number, with the first topic that has such a
        partition. Keys name no topic, so messages for several topics would overwrite each other."""
        first = {partition: (topic, end) for (topic, _, partition), end in sorted(ends.items(), reverse=True)}
        first_topic = min((topic for topic, _, _ in ends), default=self.name)
        name = self.fallback if is_topic_name(self.fallback) else first_topic
        for partition in range(send.partitions):
            topic, end = first.get(partition, (name, 0))
            yield CoordinationMessage(
                event=send.event,
                connector=self.connector(send.to),
                topic=topic,
                partition=partition,
                offset=end,
                at_ms=send.at_ms,
            )


class CoordinationMailbox:
    """The newest message under every key of the set, of all records so far, without foreign messages."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._prefixes = tuple(f"{addresses.connector(instance)}-".encode() for instance in Instance)
        self._messages: dict[bytes, CoordinationMessage] = {}

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record, in order. A null value or an invalid message takes a message back."""
        if key is None or not key.startswith(self._prefixes):
            return
        message = None if value is None else decode_message(key, value)
        if message is None or self._addresses.instance(message) is None:
            self._messages.pop(key, None)
        elif key in self._messages or len(self._messages) < MESSAGES_MAX:
            self._messages[key] = message

    def keys_to(self, instance: Instance) -> tuple[bytes, ...]:
        """The keys of messages for the instance."""
        return tuple(key for key, message in self._messages.items() if self._addresses.instance(message) is instance)

    def announcements(self, state: GenerationSet) -> frozenset[Announcement]:
        """The complete announcements: with a message for every partition number that is due. An announcement that the
        state does not ask for needs a single message: it is only taken back."""
        due = dict(_due(state))
        return frozenset(
            announcement for announcement in set(self._all_announcements()) if self._is_whole(due, announcement)
        )

    def _all_announcements(self) -> Iterable[Announcement]:
        for message in self._messages.values():
            if (to := self._addresses.instance(message)) is not None:
                yield Announcement(event=message.event, to=to, at_ms=message.at_ms)

    def _is_whole(self, due: Mapping[Announcement, int], announcement: Announcement) -> bool:
        connector = self._addresses.connector(announcement.to)
        messages = (self._messages.get(message_key(connector, number)) for number in range(due.get(announcement, 0)))
        return all(
            message is not None and (message.event, message.at_ms) == (announcement.event, announcement.at_ms)
            for message in messages
        )


def _due(state: GenerationSet) -> Iterator[tuple[Announcement, int]]:
    """The announcements that the state asks for, with their number of partitions."""
    active = state.active_generation
    if active is None:
        return
    other = active.instance.other
    if state.asked_ms:
        yield Announcement(event=Event.ACTIVATE, to=other, at_ms=state.asked_ms), state.asked_partitions
    yield Announcement(event=Event.PASSIVATE, to=other, at_ms=active.complete_ms), active.switch_partitions


class CoordinationTopic:
    """The topic of a set of instances. Made at the first look if absent: a single partition, compacted."""

    def __init__(self, cluster: Cluster, addresses: Addresses, *, clock: Clock, topic: str = TOPIC) -> None:
        self._admin: ClusterAdmin = cluster.admin
        self._router: Router = shared_router(cluster.config)
        self._addresses, self._clock, self._topic = addresses, clock, topic
        self._mailbox = CoordinationMailbox(addresses)
        self._topic_id: object = None
        self._read_to: dict[TopicPartition, int] = {}
        self._reread_s = 0.0

    def announcements(self, state: GenerationSet) -> frozenset[Announcement]:
        """The announcements in the topic. Raises the errors of the cluster, including `KafkaNotAuthorized`."""
        self._look()
        return self._mailbox.announcements(state)

    def send(self, effect: Send, *, ends: GenerationEnds) -> None:
        self._write((message.key, encode_message(message)) for message in self._addresses.messages(effect, ends))

    def take_back(self, effect: TakeBack) -> None:
        self._write((key, None) for key in self._mailbox.keys_to(effect.to))

    def _look(self) -> None:
        partitions = self._partitions()
        starts, ends = self._admin.start_offsets(partitions), self._admin.end_offsets(partitions)
        is_time = self._clock.monotonic_s() >= self._reread_s
        if is_time or any(ends[partition] < self._read_to.get(partition, 0) for partition in partitions):
            self._begin_anew()
        for partition in partitions:
            start = max(self._read_to.get(partition, 0), starts[partition], ends[partition] - OFFSETS_MAX)
            if start < ends[partition]:
                self._read(
                    LogRange(topic=partition.topic, partition=partition.partition, start=start, end=ends[partition])
                )
            self._read_to[partition] = ends[partition]

    def _begin_anew(self) -> None:
        self._mailbox, self._read_to = CoordinationMailbox(self._addresses), {}
        self._reread_s = self._clock.monotonic_s() + REREAD_S

    def _partitions(self) -> list[TopicPartition]:
        """The partitions of the topic, which is made if absent."""
        topic = self._router.metadata([self._topic]).topics.get(self._topic)
        if topic is None or not topic.partitions:
            self._make()
            topic = self._admin.topics([self._topic])[self._topic]
        if topic.topic_id != self._topic_id:
            self._topic_id = topic.topic_id
            self._begin_anew()
        return [TopicPartition(topic=self._topic, partition=partition.partition) for partition in topic.partitions]

    def _make(self) -> None:
        new = NewTopic(name=self._topic, partitions=1, configs={"cleanup.policy": "compact"})
        try:
            self._admin.create_topics([new])
        except (BadOption, KafkaProtocolError) as error:  # the other instance was first
            warned("coordination_topic", why=error.message)

    def _read(self, log_range: LogRange) -> None:
        for item in PartitionReader(self._router, clock=self._clock).read(log_range, reach_back=True):
            if isinstance(item, Chunk):
                for header in item.batches:
                    self._take(item.data, header, log_range)

    def _take(self, data: memoryview, header: BatchHeader, log_range: LogRange) -> None:
        if header.is_control:
            return
        try:
            for record in iterate(header.view(data), header):
                if log_range.start <= record.offset < log_range.end:
                    self._mailbox.take(record.key, record.value)
        except DamagedBatch as error:  # no writer to the topic may stop an instance
            warned("passed_over", why=error.message, topic=self._topic)

    def _write(self, messages: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Write messages. All in-sync replicas have acknowledged them on return."""
        partitions = self._partitions()
        shares: dict[TopicPartition, list[tuple[bytes, bytes | None]]] = {}
        for key, value in messages:
            shares.setdefault(partitions[partition_for_key(key, len(partitions))], []).append((key, value))
        for partition, share in shares.items():
            with PartitionWriter(self._router, partition, clock=self._clock) as writer:
                for first in range(0, len(share), _BATCH_RECORDS):
                    writer.send(self._batch(share[first : first + _BATCH_RECORDS]))
                writer.flush()

    def _batch(self, messages: list[tuple[bytes, bytes | None]]) -> bytearray:
        now_ms = self._clock.now_ms()
        return encode([Record(n, now_ms, CREATE_TIME, key, value) for n, (key, value) in enumerate(messages)])
