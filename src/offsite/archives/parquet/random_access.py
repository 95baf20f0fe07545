"""A file of an archive as readers see it that jump about in it."""

from __future__ import annotations

import io
from collections.abc import Callable

__all__ = ["RandomAccess"]


class RandomAccess(io.RawIOBase):
    """`fetch` gives bytes from a start, at most so many. `first_start` is where the first
    ones since `mark` were asked for."""

    def __init__(self, size_bytes: int, fetch: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self.size_bytes, self.fetch = size_bytes, fetch
        self._position = self.first_start = 0
        self.mark()

    def mark(self) -> None:
        self._is_marked = True

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size_bytes}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        length = self.size_bytes - self._position if size < 0 else size
        if self._is_marked:
            self.first_start, self._is_marked = self._position, False
        data = self.fetch(self._position, length) if length > 0 else b""
        self._position += len(data)
        return data
