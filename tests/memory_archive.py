"""The place of an archive in memory: a bucket, or a folder that can append; a test decides its clock and its death."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from offsite.log.buffer import Buffer
from offsite.model.errors import StoreDenied
from tests.faulty_store import Crash


@dataclass(frozen=True)
class Info:
    key: str
    size_bytes: int
    modified_ms: int


@dataclass
class MemoryArchive:
    """`dies_at`: the number of the change before which the process dies; `before` is called before each change.
    `protected` objects cannot be deleted."""

    clock_ms: int
    is_folder: bool = False
    objects: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    protected: set[str] = field(default_factory=set)
    changes: int = 0
    dies_at: int = -1
    before: Callable[[], None] | None = None
    written: dict[str, int] = field(default_factory=dict)

    url = "memory"

    @property
    def appendable(self) -> MemoryArchive | None:
        return self if self.is_folder else None

    @property
    def has_lock(self) -> bool:
        return self.is_folder

    def exclusive(self) -> AbstractContextManager[None]:
        return nullcontext()

    def now_ms(self) -> int:
        return self.clock_ms

    def list(self, prefix: str = "") -> Iterator[Info]:
        found = [key for key in sorted(self.objects) if key.startswith(prefix)]
        return iter([Info(key, len(self.objects[key][0]), self.written.get(key, 0)) for key in found])

    def get(self, key: str) -> bytes | None:
        return self.objects[key][0] if key in self.objects else None

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        data = self.get(key)
        return None if data is None else data[start : start + length]

    def last_message_ms(self, key: str) -> int | None:
        last_ms = -1 if self.is_folder or key not in self.objects else self.objects[key][1]
        return None if last_ms < 0 else last_ms

    def put(self, key: str, data: Buffer, *, last_message_ms: int = -1) -> None:
        self._change()
        self.objects[key] = (bytes(data), last_message_ms)
        self.written[key] = self.clock_ms

    def replace(self, key: str, old: bytes, new: Buffer) -> bool:
        self._change()
        if self.get(key) != old:
            return False
        self.objects[key] = (bytes(new), -1)
        return True

    def delete(self, key: str) -> None:
        self._change()
        if key in self.protected:
            raise StoreDenied(f"{key} is protected")
        self.objects.pop(key, None)

    def append(self, key: str, data: Buffer) -> None:
        self._change()
        self.objects[key] = ((self.get(key) or b"") + bytes(data), -1)

    def truncate(self, key: str, size_bytes: int) -> None:
        self._change()
        self.objects[key] = ((self.get(key) or b"")[:size_bytes], -1)

    def copy(self) -> MemoryArchive:
        return MemoryArchive(self.clock_ms, self.is_folder, dict(self.objects), set(self.protected))

    def _change(self) -> None:
        before, self.before = self.before, None  # what it does is not interrupted itself
        if before is not None:
            before()
        self.before = before
        if self.changes == self.dies_at:
            raise Crash
        self.changes += 1
