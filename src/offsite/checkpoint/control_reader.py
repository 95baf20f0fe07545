"""Reads the control topic for an opener of checkpoints: its contents so far, and the time of the reading."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from offsite.kafka.small_log import SmallLog
from offsite.model.clock import Clock
from offsite.model.errors import ParticipantFailed, SourceTruncated
from offsite.participant.control import ControlRecord, ControlState, Session, parse_record
from offsite.participant.errors import ParticipantError

_BEGINNINGS = 5
"""Times that the log may lose its beginning during the first reading."""


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
