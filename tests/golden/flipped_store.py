"""A folder as objects in memory, of which one may have other bytes: quick enough to be read some hundred thousand
times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from offsite.log.buffer import Buffer
from offsite.stores.store import ObjectInfo, ObjectWriter, PutResult


class FlippedStore:
    """Reads only. `replace` sets what one object holds, until the next call."""

    url = "memory"

    def __init__(self, folder: Path) -> None:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        self.objects = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
        self._replaced = ("", b"")

    def replace(self, key: str, data: bytes) -> None:
        self._replaced = (key, data)

    def get(self, key: str) -> bytes | None:
        return self._replaced[1] if key == self._replaced[0] else self.objects.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        data = self.get(key)
        return None if data is None else data[start : start + length]

    def head(self, key: str) -> ObjectInfo | None:
        data = self.get(key)
        return None if data is None else ObjectInfo(key=key, size_bytes=len(data), modified_ms=1)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        for key in sorted(self.objects):
            if key.startswith(prefix) and key > start_after and (info := self.head(key)) is not None:
                yield info

    def now_ms(self) -> int:
        return 2

    def prepare(self) -> None:
        raise NotImplementedError

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        raise NotImplementedError

    def put_overwrite(self, key: str, data: Buffer) -> None:
        raise NotImplementedError

    def open_write(self, key: str) -> ObjectWriter:
        raise NotImplementedError

    def delete(self, key: str) -> None:
        raise NotImplementedError

    def sweep_unfinished(self, *, before_ms: int) -> int:
        raise NotImplementedError
