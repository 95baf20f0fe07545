"""The control topic as whoever opens a checkpoint reads it: what it says so far, and by when it was read."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from offsite.kafka.small_log import SmallLog
from offsite.model.clock import Clock
from offsite.model.errors import ParticipantFailed, SourceTruncated
from offsite.participant.control import ControlRecord, ControlState, Session, parse_record
from offsite.participant.errors import ParticipantError

_BEGINNINGS = 5
"""So often may the log lose its beginning while it is read for the first time."""


class ControlReader:
    """Folds the records of the topic in order. `newest`: the highest id that was opened in them. `has_strange`: some
    records were of no kind that is known."""

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
        """Read all that there is. What another opener deletes meanwhile is older than what it has opened."""
        for _ in range(_BEGINNINGS - 1):
            with suppress(SourceTruncated):
                self.catch_up()
                return
            self._begin()
        self.catch_up()

    def catch_up(self) -> None:
        """Read to the end as it is when this is called. Raises `ParticipantFailed` for a record that cannot be read,
        `SourceTruncated` where some were deleted before they were."""
        end = self._log.end()
        if end < self._at:
            raise SourceTruncated(f"{self._topic} ends at {end}, and was read to {self._at} before")
        self.read_to(end)

    def read_to(self, end: int) -> None:
        """Read what was not read yet below offset `end`. A lease counts from after its record was read."""
        for record in self._log.read(self._at, end) if self._at < end else ():
            said = self._parsed(record.value, record.offset)
            self.has_strange |= said is None
            self._state = self._state.after(said, read_at_ms=self._now_ms())
        self._at = max(self._at, end)

    def missing(self, checkpoint: int) -> frozenset[Session]:
        """Those who have not acknowledged `checkpoint`, and whose lease lasts: by a time from before the end was asked
        for, so whatever they said until then is read. The others are forgotten. Raises as `catch_up`."""
        asked_ms = self._now_ms()
        self.catch_up()
        self._state = self._state.without(frozenset(self._state.lapsed(now_ms=asked_ms)))
        return self._state.missing(checkpoint, now_ms=asked_ms)

    def lease_ms(self, sessions: Iterable[Session]) -> int:
        """The longest lease of these."""
        return max(self._state.stays[each].lease_ms for each in sessions)

    @property
    def has_sessions(self) -> bool:
        """Whether anybody lived when it was last asked who is missing."""
        return bool(self._state.stays)

    def _parsed(self, value: bytes | None, offset: int) -> ControlRecord | None:
        try:
            return parse_record(value)
        except ParticipantError as error:
            raise ParticipantFailed(
                f"offset {offset} of {self._topic}: {error}",
                hint="who writes there? While no checkpoint is taken, the records up to there may be deleted with: "
                "kafka-delete-records",
            ) from error

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)
