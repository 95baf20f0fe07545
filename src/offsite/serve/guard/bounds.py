"""Limits per caller of a shared coordinator: concurrent requests, and lines in the journal."""

from __future__ import annotations

from collections import Counter

from offsite.model.clock import Clock

REQUESTS_AT_ONCE = 16
"""Concurrent requests of one caller, of forty threads in the server. A browser sends six."""
REFUSALS_LOGGED_MAX = 20
"""Journal lines about refused requests of one caller in a minute: a full log file is rotated, so a caller with
unlimited lines could erase the traces of earlier requests."""


class RequestCounter:
    """The number of running requests of every caller. Names come from tokens, so they are few."""

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()

    def take(self, name: str) -> bool:
        """Return whether one more request of `name` may run now; an accepted request must be given back."""
        if self._under_way[name] >= REQUESTS_AT_ONCE:
            return False
        self._under_way[name] += 1
        return True

    def give_back(self, name: str) -> None:
        self._under_way[name] -= 1


class RefusalLog:
    """Limits the journal lines about refused requests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: dict[str, tuple[int, int]] = {}

    def note_of(self, name: str) -> str | None:
        """Return an addition to the line, empty: none; None: no line."""
        minute = int(self._clock.monotonic_s() // 60)
        before, count = self._told.get(name, (minute, 0))
        count = count + 1 if before == minute else 1
        self._told[name] = (minute, count)
        if count > REFUSALS_LOGGED_MAX:
            return None
        return "further refusals of this minute are not logged" if count == REFUSALS_LOGGED_MAX else ""
