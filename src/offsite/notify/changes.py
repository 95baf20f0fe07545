"""The changes of state of a run that follows: an outage begins or ends, partitions are left behind or caught up.

Not a word per commit, nor per attempt: an outage is told once it has lasted a minute, since brokers restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from offsite.model.clock import Clock
from offsite.model.names import amount, named
from offsite.notify.event import EventKind

if TYPE_CHECKING:
    from offsite.backup.outages import Outage

OUTAGE_TOLD_AFTER_S = 60.0
AGAIN_TOLD_AFTER_S = 600.0
"""The same for an outage within an hour of the last one that was told: where they come and go, few are told, and none
that lasts is hidden."""
_HOUR_S = 3600.0
ALIVE_EVERY_S = 60.0
_NAMED_MAX = 5


class PartitionLeft(Protocol):
    """A partition that a round could not copy, with the id of the error."""

    @property
    def error(self) -> str: ...


class TellChange(Protocol):
    def __call__(
        self, kind: EventKind, *, since_ms: int | None = None, error: str = "", message: str = "", hint: str = ""
    ) -> None: ...


class FollowChanges:
    """Watches one run, and tells its changes. For one thread at a time."""

    def __init__(self, tell: TellChange, *, clock: Clock) -> None:
        self._tell, self._clock = tell, clock
        self._outage_began_s: float | None = None
        self._told_outage: Outage | None = None
        self._told_s = float("-inf")
        self._left = 0
        self._alive_s = float("-inf")

    def outage(self, outage: Outage | None) -> None:
        """Take a failed attempt, or the end of an outage (`backup.outages.OnOutage`)."""
        if outage is None:
            self._end_outage()
            return
        now_s = self._clock.monotonic_s()
        self._outage_began_s = now_s if self._outage_began_s is None else self._outage_began_s
        is_again = now_s - self._told_s < _HOUR_S
        told_after_s = AGAIN_TOLD_AFTER_S if is_again else OUTAGE_TOLD_AFTER_S
        if self._told_outage is None and now_s - self._outage_began_s >= told_after_s:
            self._told_outage, self._told_s, error = outage, now_s, outage.error
            self._tell(
                EventKind.OUTAGE, since_ms=outage.since_ms, error=error.id, message=error.message, hint=error.hint
            )

    def round(self, left: Sequence[PartitionLeft], *, losses: Sequence[str] = ()) -> None:
        """Take a finished round, with the partitions that it left behind, and the topic of each loss that it found."""
        if losses:
            ranges, topics = amount(len(losses), "range"), named(sorted(set(losses)), most=_NAMED_MAX)
            message = f"the source had lost records: {ranges} of {topics}; see offsite show"
            self._tell(EventKind.LOSS, message=message)
        if left and not self._left:
            message = f"{amount(len(left), 'partition')} could not be copied to the end; the others are"
            self._tell(EventKind.LEFT_BEHIND, error=left[0].error, message=message)
        if self._left and not left:
            self._tell(EventKind.CAUGHT_UP, message="all partitions are copied again")
        self._left = len(left)
        now_s = self._clock.monotonic_s()
        if not left and now_s - self._alive_s >= ALIVE_EVERY_S:
            self._alive_s = now_s
            self._tell(EventKind.ROUND, message="up to date")

    def _end_outage(self) -> None:
        if self._told_outage is not None:
            self._tell(EventKind.OUTAGE_OVER, since_ms=self._told_outage.since_ms, message="working again")
            self._left = 0  # a ping of a success was sent: partitions that are still left are told again
        self._outage_began_s = self._told_outage = None
