"""A store in memory: thousands of repositories in a second. What real stores do is asked in tests/contract."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offsite.log.buffer import Buffer
from offsite.stores.store import ObjectInfo, PutResult, join_buffers
from tests.virtual_time import VirtualClock


class MemoryStore:
    """`clock`: the world's, or one of its own. Of a store without a world the clock goes on by a second whenever it is
    asked."""

    url = "memory:"

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.objects: dict[str, bytes] = {}
        self._times: dict[str, int] = {}
        self.clock = clock or VirtualClock()
        self._tick_ms = 0 if clock else 1000
        self.facts: dict[str, bytes] = {}
        """What the machine of the store remembers: a copy of the store, to try something with, has a copy of them."""

    def prepare(self) -> None: ...

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        new = bytes(join_buffers(data))
        if key in self.objects:
            return PutResult.SAME if self.objects[key] == new else PutResult.OTHER
        self.put_overwrite(key, new)
        return PutResult.CREATED

    def put_overwrite(self, key: str, data: Buffer) -> None:
        self.objects[key] = bytes(data)
        self._times[key] = self.clock.now_ms()

    def open_write(self, key: str) -> _Writer:
        return _Writer(self, key)

    def get(self, key: str) -> bytes | None:
        return self.objects.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        data = self.objects.get(key)
        return None if data is None else data[start : start + length]

    def head(self, key: str) -> ObjectInfo | None:
        data = self.objects.get(key)
        return None if data is None else ObjectInfo(key=key, size_bytes=len(data), modified_ms=self._times[key])

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        for key in sorted(key for key in self.objects if key.startswith(prefix) and key > start_after):
            found = self.head(key)
            assert found is not None
            yield found

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    def now_ms(self) -> int:
        self.clock.pass_ms(self._tick_ms)
        return self.clock.now_ms()

    def pass_time(self, ms: int) -> None:
        self.clock.pass_ms(ms)

    def sweep_unfinished(self, *, before_ms: int) -> int:
        return 0


class _Writer:
    def __init__(self, store: MemoryStore, key: str) -> None:
        self._store, self._key = store, key
        self._data = bytearray()

    def write(self, data: Buffer) -> None:
        self._data += data

    def close(self) -> PutResult:
        return self._store.put_if_absent(self._key, self._data)

    def abort(self) -> None: ...
