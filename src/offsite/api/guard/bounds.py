"""What one caller may take of a coordinator that others use as well: requests at once, and lines of its journal."""

from __future__ import annotations

from collections import Counter

from offsite.model.clock import Clock

AT_ONCE = 16
"""Requests of one caller that are answered at once, of the forty threads that a server has. A browser sends six."""
REFUSALS_TOLD = 20
"""Lines about refused requests of one caller in a minute: a log file is turned over when it is full, so whoever may
fill it makes it forget what he did before."""


class Turns:
    """How many requests of each caller are under way. Names come from tokens, so they are few."""

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()

    def take(self, name: str) -> bool:
        """Whether one more of `name` may be answered now; then it has to be given back."""
        if self._under_way[name] >= AT_ONCE:
            return False
        self._under_way[name] += 1
        return True

    def give_back(self, name: str) -> None:
        self._under_way[name] -= 1


class RefusalLines:
    """Which refused requests of a caller get a line."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: dict[str, tuple[int, int]] = {}

    def note_of(self, name: str) -> str | None:
        """What the line says besides, empty for nothing; None where there is to be no line."""
        minute = int(self._clock.monotonic_s() // 60)
        before, count = self._told.get(name, (minute, 0))
        count = count + 1 if before == minute else 1
        self._told[name] = (minute, count)
        if count > REFUSALS_TOLD:
            return None
        return "no more of this minute are told" if count == REFUSALS_TOLD else ""
