"""What every deletion of old data keeps to. By age: only if the local machine's clock and the store's roughly agree. In
steps: a generator with frequent pauses, so that a following run does the work between its rounds.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from offsite.model.clock import MOST_APART_MS, Clock
from offsite.model.errors import ClocksDiffer
from offsite.model.units import format_duration, format_time


def check_clocks(store_ms: int, clock: Clock, *, place: str) -> int:
    """Return `store_ms`, the time of the store at `place`, if `clock` roughly agrees. Raises `ClocksDiffer`."""
    local_ms = clock.now_ms()
    if abs(store_ms - local_ms) > MOST_APART_MS:
        apart = format_duration(abs(store_ms - local_ms) / 1000)
        raise ClocksDiffer(
            f"the clock of {place} says {format_time(store_ms)}, and the clock of this machine says "
            f"{format_time(local_ms)}: the difference is {apart}, so one clock is wrong",
            hint="correct the wrong clock; nothing was deleted",
        )
    return store_ms


ResultT = TypeVar("ResultT")

PAUSE_S = 0.5
"""Approximate seconds of work between two pauses."""


class Pauses:
    """Pauses after `PAUSE_S` seconds of work. The duration of a pause is no work."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_s = clock.monotonic_s() + PAUSE_S

    def if_due(self) -> Generator[None, None, None]:
        """A pause, if due."""
        if self._clock.monotonic_s() >= self._next_s:
            yield
            self._next_s = self._clock.monotonic_s() + PAUSE_S


def run_to_end(steps: Generator[None, None, ResultT]) -> ResultT:
    """The result of work in steps, done without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
