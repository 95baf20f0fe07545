"""Stores around a store: with timed requests, for commands that only look, and with writes at a limited rate.

- `TimedStore`: for the metrics of a process that runs for months.
- `ClockFallbackStore`: a store tells the time through a write. Where no write is allowed, this machine's time is used
  instead: good enough to show ages, and for no decision.
- `PacedStore`: every byte is paid for before the store has the byte. A store that takes an object as it grows receives
  portions. A store that sends the object as a whole at the end (see `Store.sends_at_close`) cannot be slowed down while
  sending, so the whole object is paid for right before: objects follow at the right distance, and should be small
  enough for short bursts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Protocol

from offsite.log.buffer import Buffer
from offsite.model.clock import SystemClock
from offsite.model.errors import StoreDenied
from offsite.model.journal import decided
from offsite.model.units import MIB
from offsite.stores.store import ObjectInfo, ObjectWriter, PutResult, Store

OK, FAILED = "ok", "failed"

OnRequest = Callable[[str, str, float], None]
"""Called after a request: operation (`clock`, `delete`, `get`, `head`, `list`, `put`, `write`), `ok` or `failed`, and
seconds. Called on the requesting thread."""

WHOLE_OBJECT_S = 0.25
"""Seconds of the limit that an object sent as a whole should be worth."""
LEAST_OBJECT_BYTES = 4 * MIB
"""Smaller objects cost more in requests than they save in evenness. Ten seconds of 6 MB/s still hold so many of these
objects that one more is less than a tenth."""


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


class HasClock(Protocol):
    """A place with a clock."""

    def now_ms(self) -> int: ...


class ClockFallbackStore(TimedStore):
    """Passes everything to `inner`. `now_ms` is this machine's time where the store denies the write for the store's
    time.

    For commands that change nothing: nothing shown by such a command must be carried out. `uses_own_clock`: whether the
    machine's time was used.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner, lambda _operation, _outcome, _took_s: None)
        self.uses_own_clock = False

    def now_ms(self) -> int:
        told_ms = None if self.uses_own_clock else _store_now_ms(self.inner)  # a denied right does not come back
        self.uses_own_clock = told_ms is None
        return SystemClock().now_ms() if told_ms is None else told_ms


def display_now_ms(place: HasClock) -> int:
    """Return epoch ms, for ages that are shown. Nothing may be decided by the time. Raises the errors of the place,
    except a missing right."""
    told_ms = _store_now_ms(place)
    return SystemClock().now_ms() if told_ms is None else told_ms


def _store_now_ms(place: HasClock) -> int | None:
    try:
        return place.now_ms()
    except StoreDenied as error:
        decided("clock", why=f"the clock of this machine is used: {error.message}")
        return None


def uses_own_clock(store: Store) -> bool:
    """Whether `store` has used this machine's time: such a time proves nothing about the store's contents."""
    return isinstance(store, ClockFallbackStore) and store.uses_own_clock


class WritePace(Protocol):
    @property
    def portion_bytes(self) -> int:
        """The most bytes to write at once."""

    def pay(self, size_bytes: int) -> None:
        """Wait until `size_bytes` may be written."""


class PacedStore:
    """The store of a `SegmentWriter`: `store`, at the pace of `pace`."""

    def __init__(self, store: Store, pace: WritePace) -> None:
        self._store, self._pace = store, pace

    def open_write(self, key: str) -> ObjectWriter:
        writer = self._store.open_write(key)
        return _PaidAtClose(writer, self._pace) if self._store.sends_at_close else _PaidInPortions(writer, self._pace)

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        parts = [data] if isinstance(data, Buffer) else data
        self._pace.pay(sum(memoryview(part).nbytes for part in parts))
        return self._store.put_if_absent(key, data)


def object_bytes(store: Store, bytes_per_s: int, *, most: int) -> int:
    """Return the largest size of an object; `most` applies without a limit."""
    if not store.sends_at_close:
        return most
    return min(most, max(LEAST_OBJECT_BYTES, int(bytes_per_s * WHOLE_OBJECT_S)))


class _PaidInPortions:
    def __init__(self, writer: ObjectWriter, pace: WritePace) -> None:
        self._writer, self._pace = writer, pace
        self.close, self.abort = writer.close, writer.abort

    def write(self, data: Buffer) -> None:
        remaining = memoryview(data)
        while remaining:
            portion = remaining[: self._pace.portion_bytes]
            self._pace.pay(portion.nbytes)
            self._writer.write(portion)
            remaining = remaining[portion.nbytes :]


class _PaidAtClose:
    def __init__(self, writer: ObjectWriter, pace: WritePace) -> None:
        self._writer, self._pace = writer, pace
        self._size_bytes = 0
        self.abort = writer.abort

    def write(self, data: Buffer) -> None:
        self._writer.write(data)
        self._size_bytes += memoryview(data).nbytes

    def close(self) -> PutResult:
        self._pace.pay(self._size_bytes)
        return self._writer.close()
