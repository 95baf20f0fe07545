"""Reads the command topic as ksqlDB does: committed commands, in order, up to the last stable offset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.net.routing import Router
from offsite.kafka.offsets import await_data
from offsite.kafka.presence import PresenceState
from offsite.kafka.protocol.logs import READ_COMMITTED
from offsite.log.committed_view import CommittedView
from offsite.log.range import Chunk, Hole, LogRange, TopicPartition
from offsite.log.records.batch_records import iterate
from offsite.log.records.record import Record
from offsite.log.transactions import log_markers
from offsite.model.errors import KafkaNotAuthorized, LeaderUnavailable, NoCommandTopic, SourceTruncated
from offsite.model.names import amount


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandTopic:
    """An existing command topic. `topic_id` is None with brokers before 2.8."""

    name: str
    topic_id: UUID | None
    cluster_id: str
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Committed commands from the requested offset on, and `end`, the offset to continue from: everything below is
    decided. A command missing in `records` lies at `seen_end` or later, or a later marker decides it."""

    records: Sequence[Record]
    end: int
    seen_end: int


class CommandSource:
    """A topic with one partition, by name."""

    def __init__(self, router: Router, topic: str) -> None:
        self._router, self._admin = router, ClusterAdmin(router)
        self.topic = topic
        self._where = TopicPartition(topic=topic, partition=0)

    def find(self) -> CommandTopic | None:
        """The topic; None if missing according to all brokers. Raises `NoCommandTopic` for more than one partition,
        `KafkaNotAuthorized`, `KafkaUnavailable`."""
        presence = self._admin.presence([self.topic])[self.topic]
        if presence is PresenceState.DELETED:
            return None
        if presence is PresenceState.DENIED:
            raise KafkaNotAuthorized(
                f"the principal may not describe topic {self.topic}", hint="grant Describe and Read on it"
            )
        if presence is PresenceState.UNCLEAR:
            raise LeaderUnavailable(f"the brokers do not agree whether topic {self.topic} exists", hint="try again")
        topic = self._admin.topics([self.topic])[self.topic]
        if len(topic.partitions) != 1:
            raise NoCommandTopic(
                f"{self.topic} has {amount(len(topic.partitions), 'partition')}: a command topic must have one, "
                "because the order of commands matters",
                hint="back it up with offsite backup run",
            )
        return CommandTopic(
            name=self.topic,
            topic_id=topic.topic_id,
            cluster_id=self._admin.cluster().cluster_id,
            replication_factor=topic.replication_factor,
        )

    def configs(self) -> Mapping[str, str]:
        """The topic's own settings; empty without the right to read them. A backup does not need them."""
        return dict(self._admin.readable_topic_configs([self.topic]).configs.get(self.topic, {}))

    def start(self) -> int:
        """The first offset of the log, or its end."""
        return self._admin.start_offsets([self._where])[self._where]

    def end(self) -> int:
        """The high watermark."""
        return self._admin.end_offsets([self._where])[self._where]

    def read(self, start: int, *, topic_id: UUID | None) -> Portion:
        """The commands from offset `start` to the last stable offset. Raises `SourceTruncated` if the log no longer has
        them, `TopicReplaced`, `NoSuchTopic`, and errors of a reader."""
        seen_end = self.end()
        stable = self._admin.end_offsets([self._where], isolation=READ_COMMITTED)[self._where]
        if stable < start:
            raise SourceTruncated(f"{self._where} ends at offset {stable}, but was already read up to {start}")
        if stable == start:
            return Portion(records=(), end=start, seen_end=seen_end)
        return Portion(records=tuple(self._committed(start, stable, topic_id)), end=stable, seen_end=seen_end)

    def await_more(self, offset: int, *, max_wait_ms: int) -> bool:
        """Whether a record is at `offset`, or arrives within the time. Raises as `await_data`."""
        return await_data(self._router, self._where, offset, max_wait_ms=max_wait_ms)

    def _committed(self, start: int, end: int, topic_id: UUID | None) -> Iterator[Record]:
        """Data below the last stable offset may have its marker above, but never above the high watermark read
        afterwards."""
        span = LogRange(topic=self.topic, partition=0, start=start, end=end)
        decided_to = self.end()
        markers = log_markers(
            lambda part: self._admin.reader().read(part, topic_id=topic_id, reach_back=True), span, behind_to=decided_to
        )
        view = CommittedView(markers, end_offset=decided_to)
        for piece in self._admin.reader().read(span, topic_id=topic_id, reach_back=True):
            if isinstance(piece, Hole):
                raise SourceTruncated(f"{self._where} lost offsets {piece.start} to {piece.end - 1} during the read")
            if isinstance(piece, Chunk):
                for header in filter(view.is_visible, piece.batches):
                    records = iterate(header.view(piece.data), header)
                    yield from (record for record in records if start <= record.offset < end)
