"""Measures how long one process has observed the same value, by the observations and the monotonic clock of the
process. Pure.

A wall clock may be set, and notes of another process come from foreign observations and a foreign clock. Neither shows
a value to be stable: only observations do. Nothing is observed between two observations, hence a gap counts for a
limited time only: after a stop of an hour, a process has observed nothing of the hour. A new process starts from zero.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, replace

LOOKS_MIN = 4
"""Minimum number of observations after the first one, until a value counts as stable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """A value that was the same in consecutive observations. `since_ms`: wall-clock time of the first observation, for
    people only. `remaining_s`: seconds until the value counts as stable; 0: stable."""

    value: Hashable
    since_ms: int
    remaining_s: float
    last_look_s: float

    @property
    def is_stable(self) -> bool:
        return self.remaining_s <= 0

    def until_ms(self, now_ms: int) -> int:
        """Return the earliest time at which the value can count as stable."""
        return now_ms + int(max(0.0, self.remaining_s) * 1000)


class StabilizationWindow:
    """The observed values of several keys. `enough_s`: seconds that a value must be the same before the value
    counts."""

    def __init__(self, *, enough_s: float) -> None:
        self._enough_s = enough_s
        self._seen: dict[Hashable, Stability] = {}

    def look(self, key: Hashable, value: Hashable, *, now_s: float, now_ms: int) -> Stability:
        """Record one observation: `value` for `key`. `now_s`: a monotonic clock."""
        before = self._seen.get(key)
        if before is None or before.value != value:
            now = Stability(value=value, since_ms=now_ms, remaining_s=self._enough_s, last_look_s=now_s)
        else:
            counted_s = min(max(0.0, now_s - before.last_look_s), self._enough_s / LOOKS_MIN)
            now = replace(before, remaining_s=max(0.0, before.remaining_s - counted_s), last_look_s=now_s)
        self._seen[key] = now
        return now

    def forget(self, key: Hashable) -> None:
        """Drop the value: the next observation is the first one."""
        self._seen.pop(key, None)

    def keep_only(self, keys: Collection[Hashable]) -> None:
        for key in self._seen.keys() - set(keys):
            del self._seen[key]
