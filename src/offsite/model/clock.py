"""The time, as a port: code that needs "now" or waits takes a `Clock`, so that a simulation can own the time. `Wait`
notes what this process waits for."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

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


class Stopwatch:
    """Measures the time since its creation, also while the machine sleeps."""

    __slots__ = ("_clock", "_since_s")

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SleeplessClock()
        self._since_s = self._clock.monotonic_s()

    @property
    def elapsed_ms(self) -> int:
        """The time so far, rounded up: never 0."""
        return int((self._clock.monotonic_s() - self._since_s) * 1000) + 1


class Wait:
    """A wait as long as the `with` block. `describe` returns in one line the missing event, and is called by another
    thread. `since_s` may be moved forward while the wait lasts, after a part has arrived.

    A waiting thread cannot report its wait: a frozen broker takes requests and answers none until the time is up. So
    every wait is noted here while it lasts, and a second thread tells a person or a probe of the longest wait
    (`monitor.waiting`). A note proves nothing and decides nothing. Times of waits are seconds of the machine's
    monotonic clock.
    """

    __slots__ = ("_what", "since_s")

    def __init__(self, describe: Callable[[], str], *, since_s: float) -> None:
        self._what, self.since_s = describe, since_s

    @property
    def description(self) -> str:
        return self._what()

    def __enter__(self) -> Self:
        _open[id(self)] = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _open.pop(id(self), None)


_open: dict[int, Wait] = {}


def longest_wait() -> Wait | None:
    """Return the longest of the unfinished waits. For any thread."""
    return min(tuple(_open.values()), key=lambda wait: wait.since_s, default=None)
