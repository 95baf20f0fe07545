"""What a socket gave beyond what was asked for: answers are small and many, and one system call takes in several."""

from __future__ import annotations

from collections.abc import Callable

from offsite.model.size import KIB

AHEAD_BYTES = 64 * KIB


class ReadAhead:
    """Bytes that have come, in the order in which they came, until they are taken."""

    __slots__ = ("_end", "_start", "_view")

    def __init__(self) -> None:
        self._view = memoryview(bytearray(AHEAD_BYTES))
        self._start = self._end = 0

    def __len__(self) -> int:
        return self._end - self._start

    def fill(self, receive: Callable[[memoryview], int]) -> int:
        """Take in what `receive` puts into memory, when all is taken that came before; returns its size."""
        self._start, self._end = 0, receive(self._view)
        return self._end

    def take_into(self, view: memoryview) -> int:
        """Move what has come into `view`, as much as fits; returns how much that is."""
        count = min(len(view), self._end - self._start)
        view[:count] = self._view[self._start : self._start + count]
        self._start += count
        return count
