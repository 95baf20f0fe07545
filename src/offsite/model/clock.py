"""The time, as a port: everything that needs "now" or waits takes a `Clock`, so that a simulation can own it."""

from __future__ import annotations

import time
from typing import Protocol

MOST_APART_MS = 5 * 60_000
"""Two clocks that are further apart differ, and nobody knows which of them is wrong. What is dated further ahead says
nothing."""
WITNESSED_MS = 24 * 3_600_000
"""The newest record speaks for the time of what holds it when it is no older than that."""


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC. May step backwards."""

    def monotonic_s(self) -> float:
        """Seconds from an unknown start; never steps backwards. For durations and deadlines."""

    def sleep(self, duration_s: float) -> None:
        """Wait that many seconds."""


class SystemClock:
    """The machine's own clock: the only place in offsite that reads the time."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        time.sleep(duration_s)


class SleeplessClock(SystemClock):
    """The same, but `monotonic_s` goes on while the machine sleeps, where the system has such a clock: for who has to
    know how long it was away. Deadlines keep to the other one: nobody could answer meanwhile."""

    _clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def monotonic_s(self) -> float:
        return time.clock_gettime(self._clock)
