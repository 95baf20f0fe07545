"""The control topic as whoever opens a checkpoint reads it: what it says so far, and by when it was read."""

from __future__ import annotations

from offsite.kafka.small_log import SmallLog
from offsite.model.clock import Clock
from offsite.model.errors import ParticipantFailed
from offsite.participant.control import ControlRecord, ControlState, Presence, Session, parse_record
from offsite.participant.errors import ParticipantError


class ControlReader:
    """Folds the records of the topic in order. `newest`: the highest id that was opened in them. `longest_lease_ms`: of
    all their sessions. `has_strange`: some records were of no kind that is known."""

    def __init__(self, log: SmallLog, topic: str, *, clock: Clock) -> None:
        self._log, self._topic, self._clock = log, topic, clock
        self._state = ControlState()
        self._at = log.start()
        self.longest_lease_ms = 0
        self.has_strange = False

    @property
    def newest(self) -> int:
        return self._state.newest

    def catch_up(self) -> int:
        """Read to the end as it is when this is called. Returns a time *before* that, for `missing`. Raises
        `ParticipantFailed` for a record that cannot be read."""
        asked_ms = self._now_ms()
        self.read_to(self._log.end())
        return asked_ms

    def read_to(self, end: int) -> None:
        """Read what was not read yet below offset `end`. A lease counts from after its record was read."""
        for record in self._log.read(self._at, end) if self._at < end else ():
            said = self._parsed(record.value, record.offset)
            self.has_strange |= said is None
            if isinstance(said, Presence):
                self.longest_lease_ms = max(self.longest_lease_ms, said.lease_ms)
            self._state = self._state.after(said, read_at_ms=self._now_ms())
        self._at = max(self._at, end)

    def missing(self, checkpoint: int, *, asked_ms: int) -> frozenset[Session]:
        """Those who have not acknowledged `checkpoint`, and whose lease lasted at `asked_ms`: whatever they said until
        then was read since. The others are forgotten."""
        self._state = self._state.without(frozenset(self._state.lapsed(now_ms=asked_ms)))
        return self._state.missing(checkpoint, now_ms=asked_ms)

    def has_sessions(self, *, asked_ms: int) -> bool:
        """Whether anybody lived at `asked_ms`."""
        return bool(self._state.alive(now_ms=asked_ms))

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
