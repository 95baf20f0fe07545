"""A store that writes down each request that an object store would get, in whatever process asks.

Counted as S3 counts: an object is one put, however it was written; a look at one is a get; a listing is one request for
each 1,000 keys, at the price of a put; deletes cost nothing. `tests/unit/bench/test_counted_store.py` holds it against
a real S3 server.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from offsite.log.buffer import Buffer
from offsite.stores.store import ObjectInfo, ObjectWriter, PutResult, Store

PUT, GET, DELETE = "put", "get", "delete"
PAGE_KEYS = 1_000
"""Keys of a page of a listing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedStore:
    """Passes everything to `inner`. `folder` gets a file for each process that asks for something."""

    inner: Store
    folder: Path

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def sends_at_close(self) -> bool:
        return self.inner.sends_at_close

    def prepare(self) -> None:
        self.inner.prepare()

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        self._count(PUT, key)
        return self.inner.put_if_absent(key, data)

    def put_overwrite(self, key: str, data: Buffer) -> None:
        self._count(PUT, key)
        self.inner.put_overwrite(key, data)

    def open_write(self, key: str) -> ObjectWriter:
        return _CountedWriter(self.inner.open_write(key), self, key)

    def get(self, key: str) -> bytes | None:
        self._count(GET, key)
        return self.inner.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        self._count(GET, key)
        return self.inner.get_range(key, start, length)

    def head(self, key: str) -> ObjectInfo | None:
        self._count(GET, key)
        return self.inner.head(key)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        self._count(PUT, prefix + "list/")
        for number, found in enumerate(self.inner.list(prefix, start_after=start_after)):
            if number and number % PAGE_KEYS == 0:
                self._count(PUT, prefix + "list/")
            yield found

    def delete(self, key: str) -> None:
        self._count(DELETE, key)
        self.inner.delete(key)

    def now_ms(self) -> int:
        self._count(PUT, "clock")
        self._count(GET, "clock")
        return self.inner.now_ms()

    def sweep_unfinished(self, *, before_ms: int) -> int:
        return self.inner.sweep_unfinished(before_ms=before_ms)

    def closed(self, key: str) -> None:
        """An object that was written in portions is there."""
        self._count(PUT, key)

    def taken(self) -> Counter[tuple[str, str]]:
        """What was asked for since the last call: requests by their kind and by `what` was asked for."""
        found: Counter[tuple[str, str]] = Counter()
        for path in self.folder.iterdir():
            for line in path.read_text(encoding="utf-8").splitlines():
                kind, _, key = line.partition(" ")
                found[kind, what(key)] += 1
            path.unlink()
        return found

    def _count(self, kind: str, key: str) -> None:
        with (self.folder / str(os.getpid())).open("a", encoding="utf-8") as file:  # one write each: threads share it
            file.write(f"{kind} {key}\n")


def what(key: str) -> str:
    """What an object is: `segment`, `pack`, `commit`, `catalog`, `restore` (what one restore keeps), or `run` (all that
    a run needs once or so)."""
    parts = key.split("/")
    place = parts[2] if parts[0] == "backups" and len(parts) > 3 else ""
    if "list" in parts:
        return "run"
    names = {
        "topics": "segment",
        "packs": "pack",
        "commits": "commit",
        "catalog": "catalog",
        "catalog-parts": "catalog",
        "restores": "restore",
    }
    return names.get(place, "run")


class _CountedWriter:
    def __init__(self, inner: ObjectWriter, store: CountedStore, key: str) -> None:
        self._inner, self._store, self._key = inner, store, key
        self.write, self.abort = inner.write, inner.abort

    def close(self) -> PutResult:
        result = self._inner.close()
        self._store.closed(self._key)
        return result
