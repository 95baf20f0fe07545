"""Bytes received beyond the request: answers are small and many, and one system call receives several."""

from __future__ import annotations

from collections.abc import Callable

from offsite.model.size import KIB

AHEAD_BYTES = 64 * KIB


class ReadAhead:
    """Received bytes, in order of arrival, until taken."""

    __slots__ = ("_end", "_start", "_view")

    def __init__(self) -> None:
        self._view = memoryview(bytearray(AHEAD_BYTES))
        self._start = self._end = 0

    def __len__(self) -> int:
        return self._end - self._start

    def fill(self, receive: Callable[[memoryview], int]) -> int:
        """Take in the bytes that `receive` writes into memory, after all earlier bytes were taken. Returns the size."""
        self._start, self._end = 0, receive(self._view)
        return self._end

    def take_into(self, view: memoryview) -> int:
        """Move received bytes into `view`, as many as fit. Returns the number of bytes."""
        count = min(len(view), self._end - self._start)
        view[:count] = self._view[self._start : self._start + count]
        self._start += count
        return count
