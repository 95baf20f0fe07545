"""A store that fails where it is told to: each effect (a create, an overwrite, a delete) has a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from offsite.log.buffer import Buffer
from offsite.stores.store import ObjectInfo, ObjectWriter, PutResult, Store


class Crash(BaseException):
    """The process dies here; no handler of ours may stop it."""


class FaultyStore:
    """Passes everything to `inner`; raises `error()` before or after effect number `fails_at`."""

    def __init__(
        self, inner: Store, *, fails_at: int = -1, after: bool = False, error: Callable[[], BaseException] = Crash
    ) -> None:
        self.inner = inner
        self.effects = 0
        self._fails_at = fails_at
        self._after = after
        self._error = error

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def sends_at_close(self) -> bool:
        return self.inner.sends_at_close

    def effect(self, act: Callable[[], PutResult | None]) -> PutResult | None:
        number = self.effects
        self.effects += 1
        if number == self._fails_at and not self._after:
            raise self._error()
        result = act()
        if number == self._fails_at:
            raise self._error()
        return result

    def prepare(self) -> None:
        self.inner.prepare()

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        return _result(self.effect(lambda: self.inner.put_if_absent(key, data)))

    def put_overwrite(self, key: str, data: Buffer) -> None:
        self.effect(lambda: self.inner.put_overwrite(key, data))

    def open_write(self, key: str) -> ObjectWriter:
        return _FaultyWriter(self, self.inner.open_write(key))

    def get(self, key: str) -> bytes | None:
        return self.inner.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        return self.inner.get_range(key, start, length)

    def head(self, key: str) -> ObjectInfo | None:
        return self.inner.head(key)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        return self.inner.list(prefix, start_after=start_after)

    def delete(self, key: str) -> None:
        self.effect(lambda: self.inner.delete(key))

    def now_ms(self) -> int:
        return self.inner.now_ms()

    def sweep_unfinished(self, *, before_ms: int) -> int:
        return self.inner.sweep_unfinished(before_ms=before_ms)


class _FaultyWriter:
    def __init__(self, store: FaultyStore, inner: ObjectWriter) -> None:
        self._store = store
        self._inner = inner

    def write(self, data: Buffer) -> None:
        self._inner.write(data)

    def close(self) -> PutResult:
        return _result(self._store.effect(self._inner.close))

    def abort(self) -> None:
        self._inner.abort()


def _result(result: PutResult | None) -> PutResult:
    assert result is not None
    return result
