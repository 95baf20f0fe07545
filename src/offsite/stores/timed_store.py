"""A store with timed requests, for the metrics of a process that runs for months."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

from offsite.log.buffer import Buffer
from offsite.stores.store import ObjectInfo, ObjectWriter, PutResult, Store

OK, FAILED = "ok", "failed"

OnRequest = Callable[[str, str, float], None]
"""Called after a request: operation (`clock`, `delete`, `get`, `head`, `list`, `put`, `write`), `ok` or `failed`, and
seconds. Called on the requesting thread."""


class TimedStore:
    """Passes everything to `inner`, and reports the duration, retries of the adapter included. `before` is called
    before every request and every object of a list, and may raise. Pickling sends the plain store: workers have nobody
    to report to."""

    def __init__(self, inner: Store, on_request: OnRequest, *, before: Callable[[], None] = lambda: None) -> None:
        self.inner, self._on_request, self._before = inner, on_request, before

    def __reduce__(self) -> tuple[Callable[[Store], Store], tuple[Store]]:
        return _plain, (self.inner,)

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def sends_at_close(self) -> bool:
        return self.inner.sends_at_close

    def prepare(self) -> None:
        self.inner.prepare()

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        with self._timed("put"):
            return self.inner.put_if_absent(key, data)

    def put_overwrite(self, key: str, data: Buffer) -> None:
        with self._timed("put"):
            self.inner.put_overwrite(key, data)

    def open_write(self, key: str) -> ObjectWriter:
        return _TimedWriter(self.inner.open_write(key), self._on_request)

    def get(self, key: str) -> bytes | None:
        with self._timed("get"):
            return self.inner.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        with self._timed("get"):
            return self.inner.get_range(key, start, length)

    def head(self, key: str) -> ObjectInfo | None:
        with self._timed("head"):
            return self.inner.head(key)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """List objects. Counts as one request, however many pages; the caller's time between two objects does not
        count."""
        objects = self.inner.list(prefix, start_after=start_after)
        took_s, outcome = 0.0, OK
        try:
            while True:
                began_s = monotonic()
                try:
                    self._before()
                    info = next(objects)
                except StopIteration:
                    return
                except BaseException:
                    outcome = FAILED
                    raise
                finally:
                    took_s += monotonic() - began_s
                yield info
        finally:
            self._on_request("list", outcome, took_s)

    def delete(self, key: str) -> None:
        with self._timed("delete"):
            self.inner.delete(key)

    def now_ms(self) -> int:
        with self._timed("clock"):
            return self.inner.now_ms()

    def sweep_unfinished(self, *, before_ms: int) -> int:
        return self.inner.sweep_unfinished(before_ms=before_ms)

    @contextmanager
    def _timed(self, operation: str) -> Iterator[None]:
        began_s, outcome = monotonic(), FAILED
        try:
            self._before()
            yield
            outcome = OK
        finally:
            self._on_request(operation, outcome, monotonic() - began_s)


def _plain(inner: Store) -> Store:
    return inner


class _TimedWriter:
    """Counts an object as one request, from the first byte until the object exists; the caller's time between two
    writes does not count."""

    def __init__(self, inner: ObjectWriter, on_request: OnRequest) -> None:
        self._inner, self._on_request = inner, on_request
        self._took_s = 0.0
        self.abort = inner.abort

    def write(self, data: Buffer) -> None:
        began_s = monotonic()
        try:
            self._inner.write(data)
        except BaseException:
            self._on_request("write", FAILED, self._took_s + monotonic() - began_s)
            raise
        self._took_s += monotonic() - began_s

    def close(self) -> PutResult:
        began_s, outcome = monotonic(), FAILED
        try:
            result = self._inner.close()
            outcome = OK
        finally:
            self._on_request("write", outcome, self._took_s + monotonic() - began_s)
        return result
