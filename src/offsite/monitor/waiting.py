"""Reports the waits of a following run from a thread beside it, because a waiting thread cannot report.

A frozen broker, a network that drops packets, a store without an answer: each is an error only after its time-out, half
a minute or minutes later. A person wants to know within seconds. A report decides nothing: the run keeps waiting, and
only its own outcome counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from offsite.model.clock import Clock, longest_wait
from offsite.model.journal import decided

TOLD_AFTER_S = 5.0
"""Seconds after which a wait is reported: brokers and stores answer within a second or two."""
LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A lasting wait: the missing event, and its seconds so far."""

    subject: str
    waited_s: float


def waiting_now(clock: Clock) -> Waiting | None:
    """The longest current wait of the process, if worth a report."""
    wait = longest_wait()
    waited_s = 0.0 if wait is None else clock.monotonic_s() - wait.since_s
    return (
        Waiting(subject=wait.description, waited_s=waited_s) if wait is not None and waited_s >= TOLD_AFTER_S else None
    )


class WaitReporter:
    """In a `with` block, calls `on_waiting` every second for as long as a wait lasts, from a thread of its own."""

    def __init__(self, on_waiting: Callable[[Waiting], None], *, clock: Clock) -> None:
        self._on_waiting, self._clock = on_waiting, clock
        self._is_waiting = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="waiting", daemon=True)

    def look(self) -> None:
        """Report the current wait, if any."""
        waiting, before = waiting_now(self._clock), self._is_waiting
        self._is_waiting = waiting is not None
        if waiting is None:
            return
        if not before:
            decided("waiting_for", why=waiting.subject, waited_s=waiting.waited_s)
        self._on_waiting(waiting)

    def _look_on(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            self.look()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
