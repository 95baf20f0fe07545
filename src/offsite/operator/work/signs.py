"""Signs that a job gets on, in its log: a job that shows none for long is ended by its queue, one that does is not.

A thread of its own that says "I live" would show nothing: it goes on while the work hangs. So a sign is said by the
work itself, when requests of it to its stores were answered, and once a minute at most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from offsite.model.clock import Clock
from offsite.stores.timed_store import OK

EVERY_S = 60.0


@dataclass(slots=True, kw_only=True)
class Signs:
    """`say` puts a line into the log."""

    clock: Clock
    say: Callable[[str], None]
    _answered: int = 0
    _said_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._said_s = self.clock.monotonic_s()

    def note(self, what: str, outcome: str, took_s: float) -> None:  # noqa: ARG002  # as `OnRequest` is called
        """A request has ended. One that failed is no sign."""
        if outcome != OK:
            return
        self._answered += 1
        if self.clock.monotonic_s() - self._said_s >= EVERY_S:
            self._said_s = self.clock.monotonic_s()
            self.say(f"works: {self._answered} requests were answered so far")
