"""Waits out outages of a following run's needs: brokers, stores, names, tokens, Spark itself.

A following run is left alone for months. Errors that may pass are waited out, with growing pauses and visibly, until
`give_up_after_s`. Errors that will not mend themselves end the run at once: a wrong option, another cluster, a damaged
repository. Rights and topics lie between: at the beginning their lack is a mistake to be reported, later an outage (a
token expired, a topic is recreated).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from offsite.backup.copy_plan import PARTITION_ERRORS
from offsite.model.clock import Clock
from offsite.model.errors import (
    ArchiveBusy,
    Bug,
    Damaged,
    Denied,
    NoRepository,
    NoSuchTopic,
    OffsiteError,
    Refused,
    UserError,
)
from offsite.model.journal import decided
from offsite.model.uninterrupted import let_interrupt

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0

_LASTING = (UserError, NoRepository, Refused, Damaged, Bug)
_LASTING_AT_FIRST = (Denied, NoSuchTopic, ArchiveBusy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A lasting outage: the newest error, its consecutive `attempts`, and its beginning (epoch ms). `wait_s`: seconds
    until the next attempt."""

    error: OffsiteError
    attempts: int
    since_ms: int
    wait_s: float


OnOutage = Callable[[Outage | None], None]
"""Called after every failed attempt, and with None at the end of an outage."""
OnWorked = Callable[[], None]
"""Called after every successful round, and after every commit in an unfinished round."""


def _nothing() -> None:
    pass


class Outages:
    """Waits between the rounds of a following run, for as long as they fail."""

    def __init__(self, *, give_up_after_s: float, clock: Clock, on_outage: OnOutage) -> None:
        self.current: Outage | None = None
        self.on_worked: OnWorked = _nothing
        self._give_up_after_s = give_up_after_s
        self._clock = clock
        self._on_outage = on_outage
        self._began_s = 0.0
        self._has_worked = False

    def wait(self, error: OffsiteError) -> None:
        """Wait before the next attempt. Raises `error` when it is lasting, or the time is used up, and
        `KeyboardInterrupt` when somebody requested the interrupt in a failed commit."""
        if self._is_lasting(error):
            raise error
        let_interrupt()
        now_s, before = self._clock.monotonic_s(), self.current
        self._began_s = now_s if before is None else self._began_s
        if now_s - self._began_s >= self._give_up_after_s:
            decided("gave_up", failing_s=now_s - self._began_s, error=error.id, why=error.message)
            raise error
        attempts = 1 if before is None else before.attempts + 1
        longest_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(attempts - 1, 10))
        wait_s = random.uniform(longest_s / 2, longest_s)  # noqa: S311  # jitter, not cryptography
        since_ms = self._clock.now_ms() if before is None else before.since_ms
        self.current = Outage(error=error, attempts=attempts, since_ms=since_ms, wait_s=wait_s)
        decided("waiting", attempt=attempts, wait_s=wait_s, error=error.id, why=error.message)
        self._on_outage(self.current)
        self._clock.sleep(wait_s)

    def worked(self) -> None:
        """Note a successful round, or a commit in an unfinished round."""
        self._has_worked = True
        self.on_worked()
        if self.current is not None:
            self.current = None
            decided(
                "outage_over",
                failed_s=self._clock.monotonic_s() - self._began_s,
                why="a commit was made, or a round succeeded",
            )
            self._on_outage(None)

    def _is_lasting(self, error: OffsiteError) -> bool:
        if isinstance(error, _LASTING_AT_FIRST):
            return not self._has_worked
        return isinstance(error, _LASTING) and not isinstance(error, PARTITION_ERRORS)
