"""Write objects into a store at a limited rate: every byte is paid for before the store has the byte.

A store that takes an object as it grows receives portions. A store that sends the object as a whole at the end (see
`Store.sends_at_close`) cannot be slowed down while sending, so the whole object is paid for right before: objects
follow at the right distance, and should be small enough for short bursts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from offsite.log.buffer import Buffer
from offsite.model.size import MIB
from offsite.stores.store import ObjectWriter, PutResult, Store

WHOLE_OBJECT_S = 0.25
"""Seconds of the limit that an object sent as a whole should be worth."""

LEAST_OBJECT_BYTES = 4 * MIB
"""Smaller objects cost more in requests than they save in evenness. Ten seconds of 6 MB/s still hold so many of these
objects that one more is less than a tenth."""


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
