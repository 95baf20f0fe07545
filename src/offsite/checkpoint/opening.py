"""Opens a checkpoint to applications that stamp their records (`offsite_participant`), before its ends are read.

The order makes the result right. First, groups and high watermarks are read: no record below them is behind the
checkpoint, because its id is higher than any earlier id. Second, `open` is written to the control topic, so that
nobody who starts later misses the opening. Third, the opening is spread: form A writes a marker into every
partition, which readers have to pass; in form B, every living session acknowledges that all records stamped with
less have arrived. Last, the ends are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from offsite.backup.copy_plan import PartitionBounds
from offsite.backup.plan import OpenCheckpoint
from offsite.backup.stamps import EpochOffset, StampWindows
from offsite.kafka.cluster import Cluster
from offsite.kafka.net.routing import Router, shared_router
from offsite.kafka.presence import PresenceState
from offsite.kafka.producer import Producer, new_producer
from offsite.kafka.protocol.metadata import NewTopic
from offsite.kafka.small_log import SmallLog
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import (
    BadOption,
    CheckpointIdUsed,
    NoSuchTopic,
    OffsiteError,
    ParticipantFailed,
    SourceTruncated,
)
from offsite.model.journal import decided, warned
from offsite.model.names import PROTECTED_TOPICS, named
from offsite.model.selection import TopicSelection
from offsite.repository.checkpoint_records import Stamping
from offsite_participant.control import (
    CONTROL_PARTITION,
    CONTROL_TOPIC_CONFIG,
    ControlRecord,
    ControlState,
    OpenRecord,
    Session,
    format_record,
    parse_record,
)
from offsite_participant.errors import ParticipantError
from offsite_participant.number import MARKER_KEY, MAX_NUMBER, Form, marker_headers

_BEGINNINGS = 5
"""Times that the log may lose its beginning during the first reading."""
ACKS_TIMEOUT_S = 60.0
"""Seconds for every session to acknowledge a checkpoint; at least two of the longest lease."""
POLL_S = 0.1
"""Seconds between two looks at the control topic."""
MARKERS_AT_ONCE = 8


class ControlReader:
    """Folds the records of the topic in order. `newest`: the highest opened id. `has_strange`: some records were of an
    unknown kind."""

    def __init__(self, log: SmallLog, topic: str, *, clock: Clock) -> None:
        self._log, self._topic, self._clock = log, topic, clock
        self._begin()

    def _begin(self) -> None:
        self._state = ControlState()
        self._at = self._log.start()
        self.has_strange = False

    @property
    def newest(self) -> int:
        return self._state.newest

    def begin(self) -> None:
        """Read everything. Records that another opener deletes meanwhile are older than its opening."""
        for _ in range(_BEGINNINGS - 1):
            with suppress(SourceTruncated):
                self.catch_up()
                return
            self._begin()
        self.catch_up()

    def catch_up(self) -> None:
        """Read to the current end. Raises `ParticipantFailed` for an unreadable record, `SourceTruncated` where unread
        records were deleted."""
        end = self._log.end()
        if end < self._at:
            raise SourceTruncated(f"{self._topic} ends at offset {end}, but was already read up to {self._at}")
        self.read_to(end)

    def read_to(self, end: int) -> None:
        """Read unread records below offset `end`. A lease counts from after the reading of its record."""
        for record in self._log.read(self._at, end) if self._at < end else ():
            said = self._parsed(record.value, record.offset)
            self.has_strange |= said is None
            self._state = self._state.after(said, read_at_ms=self._now_ms())
        self._at = max(self._at, end)

    def missing(self, checkpoint: int) -> frozenset[Session]:
        """The sessions with a lasting lease that have not acknowledged `checkpoint`. Leases are judged by a time before
        the end was asked for, so everything said until that time is read. Lapsed sessions are forgotten. Raises as
        `catch_up`."""
        asked_ms = self._now_ms()
        self.catch_up()
        self._state = self._state.without(frozenset(self._state.lapsed(now_ms=asked_ms)))
        return self._state.missing(checkpoint, now_ms=asked_ms)

    def lease_ms(self, sessions: Iterable[Session]) -> int:
        """The longest lease of the sessions."""
        return max(self._state.stays[session].lease_ms for session in sessions)

    @property
    def has_sessions(self) -> bool:
        """Whether any session was alive at the last call of `missing`."""
        return bool(self._state.stays)

    def _parsed(self, value: bytes | None, offset: int) -> ControlRecord | None:
        try:
            return parse_record(value)
        except ParticipantError as error:
            raise ParticipantFailed(
                f"offset {offset} of {self._topic}: {error}",
                hint="check who writes to this topic. While no checkpoint is taken, you can delete the records up to "
                "that offset with: kafka-delete-records",
            ) from error

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opener:
    """Opens checkpoints on `cluster`.

    An id is opened once. Records stamped after a first opening may lie below the high watermarks of a second opening,
    where nobody would look for them.
    """

    cluster: Cluster
    clock: Clock = field(default_factory=SystemClock)

    @property
    def _router(self) -> Router:
        return shared_router(self.cluster.config)

    def open(self, checkpoint: int, stamping: Stamping, bounds: Sequence[PartitionBounds]) -> StampWindows:
        """Open a checkpoint. Returns when the ends may be read. `bounds`: the partitions of the backup, with their high
        watermarks.

        Raises `NoSuchTopic` where no topic of the backup takes part; `CheckpointIdUsed` where the id or a higher id was
        opened before; `ParticipantFailed` where a participant does not acknowledge in time, another checkpoint is
        opened meanwhile, or the control topic cannot be read; `Denied`; and the errors of writing. After an error the
        id must not be opened again.
        """
        windows = _windows(checkpoint, stamping, bounds)
        log = self._control_log(stamping.control_topic)
        reader = ControlReader(log, stamping.control_topic, clock=self.clock)
        reader.begin()
        _check_is_new(checkpoint, reader.newest, stamping)
        at = log.append(format_record(OpenRecord(id=checkpoint, form=windows.form)))
        try:
            reader.read_to(at)
            _check_is_new(checkpoint, reader.newest, stamping)  # of two openers the first in the topic wins
            windows = self._spread(windows, reader, stamping.control_topic, at)
        except SourceTruncated as error:  # an opener of another checkpoint deletes older records
            raise _overtaken(checkpoint, stamping.control_topic) from error
        decided("checkpoint_opened", why=f"announced by {stamping.form}", id=checkpoint, partitions=len(windows.starts))
        return windows

    def _spread(self, windows: StampWindows, reader: ControlReader, topic: str, at: int) -> StampWindows:
        """Return when the opening at offset `at` of the control topic is spread, and no other checkpoint was opened
        meanwhile."""
        missing: frozenset[Session] = frozenset()
        if windows.form is Form.MARKERS:
            self._mark(windows)
            reader.catch_up()
        else:
            missing = self._await_acks(reader, windows.checkpoint)
        if reader.newest > windows.checkpoint:
            raise _overtaken(windows.checkpoint, topic)
        if windows.form is Form.ACKS:
            self._trim(reader, topic, at)
        if missing:
            raise _silent(windows.checkpoint, missing)
        return replace(windows, is_heard=windows.form is Form.MARKERS or reader.has_sessions)

    def _control_log(self, topic: str) -> SmallLog:
        admin = self.cluster.admin
        if admin.presence_now(topic) is PresenceState.DELETED:
            try:
                admin.create_topics([NewTopic(name=topic, partitions=1, configs=dict(CONTROL_TOPIC_CONFIG))])
            except OffsiteError:
                if admin.presence_now(topic) is not PresenceState.THERE:  # else a participant was faster
                    raise
        metadata = admin.topics([topic])[topic]
        if len(metadata.partitions) != 1:
            raise ParticipantFailed(
                f"{topic} has {len(metadata.partitions)} partitions; a control topic must have one partition, for the "
                "order of its records",
                hint="use another topic with --control-topic, and for all participants too",
            )
        where = TopicPartition(topic=topic, partition=CONTROL_PARTITION)
        return SmallLog(self._router, where, clock=self.clock)

    def _mark(self, windows: StampWindows) -> None:
        """Write a marker into every partition."""
        shared = new_producer(self._router, self.clock)

        def mark(topic: str, partition: int) -> None:
            SmallLog(self._router, TopicPartition(topic=topic, partition=partition), clock=self.clock).append(
                None,
                key=MARKER_KEY,
                headers=tuple(marker_headers(windows.checkpoint, topic, windows.control_topic)),
                producer=Producer(producer_id=shared.producer_id, epoch=shared.epoch),
            )

        with ThreadPoolExecutor(MARKERS_AT_ONCE, thread_name_prefix="offsite-marker") as pool:
            for future in [pool.submit(mark, at.topic, at.partition) for at in sorted(windows.starts)]:
                future.result()

    def _await_acks(self, reader: ControlReader, checkpoint: int) -> frozenset[Session]:
        """Return when no session is missing, or a higher id was opened. Returns the missing sessions when waiting takes
        too long."""
        began_s = self.clock.monotonic_s()
        while missing := reader.missing(checkpoint):
            limit_s = max(ACKS_TIMEOUT_S, 2 * reader.lease_ms(missing) / 1000)
            if reader.newest > checkpoint or self.clock.monotonic_s() - began_s > limit_s:
                return missing
            self.clock.sleep(POLL_S)
        return frozenset()

    def _trim(self, reader: ControlReader, topic: str, at: int) -> None:
        """Delete the records before the opening at offset `at`: otherwise the next checkpoint would wait for every dead
        session since the topic was made, a whole lease each time. A living session has spoken behind the opening: it
        has acknowledged, or sent a beat within the waiting time. Records of unknown kinds are not ours to delete."""
        if reader.has_strange:
            return
        where = TopicPartition(topic=topic, partition=CONTROL_PARTITION)
        try:
            self.cluster.admin.delete_records({where: at})
        except OffsiteError as error:  # the next opening only takes longer
            warned("control_topic_untrimmed", error=error.id, why=error.message)


def opening_of(opener: Opener, checkpoint: int, stamping: Stamping | None) -> OpenCheckpoint | None:
    """Make the callable with which a plan opens `checkpoint`; None if the checkpoint is not opened to applications."""
    return None if stamping is None else partial(opener.open, checkpoint, stamping)


def _windows(checkpoint: int, stamping: Stamping, bounds: Sequence[PartitionBounds]) -> StampWindows:
    topics = {partition.topic for partition in bounds} - PROTECTED_TOPICS
    selection = TopicSelection(include=stamping.topics)
    chosen, missing = set(selection.select(topics)), selection.missing(topics)
    if stamping.control_topic in chosen | PROTECTED_TOPICS:
        raise BadOption(
            f"{stamping.control_topic} cannot be the control topic", hint="use a topic that nothing else writes to"
        )
    if missing or not chosen:
        raise NoSuchTopic(
            f"no topic of the backup matches {', '.join(missing or stamping.topics)}",
            hint="name the topics whose writers take part: --participant-topics",
        )
    return StampWindows(
        checkpoint=checkpoint,
        starts={
            partition.partition_id: EpochOffset(partition.end, partition.leader_epoch)
            for partition in bounds
            if partition.topic in chosen
        },
        form=Form(stamping.form.value),
        control_topic=stamping.control_topic,
    )


def _overtaken(checkpoint: int, topic: str) -> ParticipantFailed:
    return ParticipantFailed(
        f"another checkpoint was opened in {topic}, or records of {topic} were deleted, before checkpoint "
        f"{checkpoint} was acknowledged",
        hint=(
            "only one checkpoint at a time can use a control topic. If two backups use it, give each backup its own "
            "control topic, or take their checkpoints one after the other"
        ),
    )


def _silent(checkpoint: int, missing: frozenset[Session]) -> ParticipantFailed:
    names = named(sorted({session.participant for session in missing}), most=3)
    return ParticipantFailed(
        f"participant {names} has not acknowledged checkpoint {checkpoint} in time",
        hint="make sure that the participant calls poll() at least every few seconds, then take the next checkpoint",
    )


def _check_is_new(checkpoint: int, newest: int, stamping: Stamping) -> None:
    if newest == checkpoint:
        raise CheckpointIdUsed(
            f"checkpoint {checkpoint} was already opened in {stamping.control_topic} and did not complete: each id "
            "can be opened only once",
            hint="take the next checkpoint",
        )
    if newest > checkpoint:
        raise CheckpointIdUsed(
            f"checkpoint {newest} was already opened in {stamping.control_topic}, so {checkpoint} cannot be opened",
            hint=_higher(newest, stamping),
        )


def _higher(newest: int, stamping: Stamping) -> str:
    if newest < MAX_NUMBER:
        return f"use a higher id: offsite checkpoint take --id {newest + 1}"
    return (
        f"no id is left in {stamping.control_topic}: use another control topic with --control-topic, and for all "
        "participants too"
    )
