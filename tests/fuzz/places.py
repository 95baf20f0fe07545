"""A repository's store and an archive's files in memory: thousands of mutants are read without touching a disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from offsite.log.buffer import Buffer
from offsite.stores.store import ObjectInfo, ObjectWriter, PutResult, join_buffers

NOW_MS = 1_900_000_000_000


class MemoryStore:
    """The `Store` port over a dictionary. Its clock stands still."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self.objects = dict(objects)

    @property
    def url(self) -> str:
        return "memory"

    def prepare(self) -> None: ...

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        wanted = bytes(join_buffers(data))
        if key in self.objects:
            return PutResult.SAME if self.objects[key] == wanted else PutResult.OTHER
        self.objects[key] = wanted
        return PutResult.CREATED

    def put_overwrite(self, key: str, data: Buffer) -> None:
        self.objects[key] = bytes(data)

    def open_write(self, key: str) -> ObjectWriter:
        return _Writer(self, key)

    def get(self, key: str) -> bytes | None:
        return self.objects.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        return None if key not in self.objects else self.objects[key][start : start + length]

    def head(self, key: str) -> ObjectInfo | None:
        return None if key not in self.objects else self._info(key)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        return (self._info(key) for key in sorted(self.objects) if key.startswith(prefix) and key > start_after)

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    def now_ms(self) -> int:
        return NOW_MS

    def sweep_unfinished(self, *, before_ms: int) -> int:
        return 0

    def _info(self, key: str) -> ObjectInfo:
        return ObjectInfo(key=key, size_bytes=len(self.objects[key]), modified_ms=NOW_MS)


class _Writer:
    def __init__(self, store: MemoryStore, key: str) -> None:
        self._store, self._key, self._parts = store, key, bytearray()

    def write(self, data: Buffer) -> None:
        self._parts += data

    def close(self) -> PutResult:
        return self._store.put_if_absent(self._key, self._parts)

    def abort(self) -> None: ...


def files_below(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
