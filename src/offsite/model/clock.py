"""The time, as a port: code that needs "now" or waits takes a `Clock`, so that a simulation can own the time."""

from __future__ import annotations

import time
from typing import Protocol

MOST_APART_MS = 5 * 60_000
"""Clocks further apart differ, and nobody knows which is wrong. A time further ahead proves nothing."""
WITNESSED_MS = 24 * 3_600_000
"""The newest record is evidence for the present time of its log when no older than this."""


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC. May step backwards."""

    def monotonic_s(self) -> float:
        """Seconds from an unknown start; never steps backwards. For durations and deadlines."""

    def sleep(self, duration_s: float) -> None:
        """Wait `duration_s` seconds."""


class SystemClock:
    """The machine's own clock, for everything that takes a `Clock`."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        time.sleep(duration_s)


class SleeplessClock(SystemClock):
    """A clock whose `monotonic_s` also runs while the machine sleeps, where the system has such a clock: for code that
    must know the length of an absence. Deadlines keep to `SystemClock`, because nobody could answer meanwhile."""

    _clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def monotonic_s(self) -> float:
        return time.clock_gettime(self._clock)
