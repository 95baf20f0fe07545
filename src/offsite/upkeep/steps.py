"""Long work in steps: a generator with frequent pauses, so that a following run does the work between its rounds."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from offsite.model.clock import Clock

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
