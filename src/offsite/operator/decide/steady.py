"""How long one process has seen the same thing, by its own looks and its own monotonic clock. Pure.

A wall clock may be set, and what another process noted was seen with other eyes and by another clock. Neither shows
that something was so for a while: looks do. Between two looks nobody looked, so a gap counts for a part of the time
alone: a process that was stopped for an hour has seen nothing of that hour. One that begins anew counts anew.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, replace

LOOKS_MIN = 4
"""Looks behind the first one, at least, until something was the same for long enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """Something that was seen in one look after the other. `since_ms`: the wall clock's time of the first of them, for
    people alone; `left_s`: seconds until it was there for long enough, 0 when it was."""

    what: Hashable
    since_ms: int
    left_s: float
    looked_s: float

    @property
    def is_enough(self) -> bool:
        return self.left_s <= 0

    def until_ms(self, now_ms: int) -> int:
        """When it will have been there for long enough, at the earliest."""
        return now_ms + int(max(0.0, self.left_s) * 1000)


class Steady:
    """What was seen of several things. `enough_s`: so long one has to be the same before it counts."""

    def __init__(self, *, enough_s: float) -> None:
        self._enough_s = enough_s
        self._seen: dict[Hashable, Lasting] = {}

    def look(self, key: Hashable, what: Hashable, *, now_s: float, now_ms: int) -> Lasting:
        """One look, which finds `what` for `key`. `now_s` is of a monotonic clock."""
        before = self._seen.get(key)
        if before is None or before.what != what:
            now = Lasting(what=what, since_ms=now_ms, left_s=self._enough_s, looked_s=now_s)
        else:
            counted_s = min(max(0.0, now_s - before.looked_s), self._enough_s / LOOKS_MIN)
            now = replace(before, left_s=max(0.0, before.left_s - counted_s), looked_s=now_s)
        self._seen[key] = now
        return now

    def forget(self, key: Hashable) -> None:
        """It is not so any more: the next look is the first one."""
        self._seen.pop(key, None)

    def keep_only(self, keys: Collection[Hashable]) -> None:
        for key in self._seen.keys() - set(keys):
            del self._seen[key]
