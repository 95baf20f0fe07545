"""Logs the progress of a job: the queue ends a job without progress in its log.

A separate thread with the message "alive" would prove nothing: such a thread continues while the work hangs. Hence the
work itself logs, after answered requests to its stores, at most once a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from offsite.model.clock import Clock
from offsite.stores.wrapped_store import OK

EVERY_S = 60.0


@dataclass(slots=True, kw_only=True)
class ProgressLog:
    """`say` appends a line to the log."""

    clock: Clock
    say: Callable[[str], None]
    _answered: int = 0
    _said_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._said_s = self.clock.monotonic_s()

    def note(self, request: str, outcome: str, took_s: float) -> None:  # noqa: ARG002  # as `OnRequest` is called
        """Count a finished request. A failed request is no progress."""
        if outcome != OK:
            return
        self._answered += 1
        if self.clock.monotonic_s() - self._said_s >= EVERY_S:
            self._said_s = self.clock.monotonic_s()
            self.say(f"works: {self._answered} requests were answered so far")
