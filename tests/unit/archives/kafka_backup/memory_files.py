"""An archive's folder in memory, and one whose process dies after so many bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from offsite.log.buffer import Buffer


@dataclass(frozen=True)
class Info:
    key: str
    size_bytes: int


class Crash(BaseException):
    """The process dies here; no handler of ours may stop it."""


@dataclass
class MemoryFiles:
    """`lives_bytes`: how many bytes may still be written, by any call; every call costs one byte beside its data.
    A crash leaves part of what is appended, and all or nothing of every other change."""

    contents: dict[str, bytes] = field(default_factory=dict)
    lives_bytes: int = 1 << 62
    read_bytes: int = 0
    longest_read_bytes: int = 0

    @property
    def url(self) -> str:
        return "memory"

    @property
    def appendable(self) -> MemoryFiles:
        return self

    @property
    def has_lock(self) -> bool:
        return True

    def exclusive(self) -> AbstractContextManager[None]:
        return nullcontext()

    def copy(self, *, lives_bytes: int = 1 << 62) -> MemoryFiles:
        return MemoryFiles(dict(self.contents), lives_bytes)

    def list(self, prefix: str = "") -> Iterator[Info]:
        return (Info(key, len(self.contents[key])) for key in sorted(self.contents) if key.startswith(prefix))

    def get(self, key: str) -> bytes | None:
        return self.contents.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        if key not in self.contents:
            return None
        self.read_bytes += length
        self.longest_read_bytes = max(self.longest_read_bytes, length)
        return self.contents[key][start : start + length]

    def put(self, key: str, data: Buffer, *, last_message_ms: int = -1) -> None:
        self._spend(len(data) + 1)
        self.contents[key] = bytes(data)

    def replace(self, key: str, old: bytes, new: Buffer) -> bool:
        if self.get(key) != old:
            return False
        self.put(key, new)
        return True

    def delete(self, key: str) -> None:
        self._spend(1)
        self.contents.pop(key, None)

    def append(self, key: str, data: Buffer) -> None:
        self._spend(1)
        left = min(len(data), self.lives_bytes)
        self.contents[key] = self.contents.get(key, b"") + bytes(data)[:left]
        self._spend(len(data))

    def truncate(self, key: str, size_bytes: int) -> None:
        self._spend(1)
        assert size_bytes <= len(self.contents[key])
        self.contents[key] = self.contents[key][:size_bytes]

    def _spend(self, bytes_: int) -> None:
        self.lives_bytes -= bytes_
        if self.lives_bytes < 0:
            raise Crash
