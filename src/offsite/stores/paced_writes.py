"""Objects on their way into a store at a limited rate: every byte is paid for before the store has it.

A store that takes an object as it grows is given it in portions. One that sends it as a whole at its end (see
`Store.sends_at_close`) cannot be slowed down while it sends, so the object is paid for as a whole, right before:
objects follow each other at the right distance, and should be small enough that each is a short burst.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from offsite.log.buffer import Buffer
from offsite.model.size import MIB
from offsite.stores.store import ObjectWriter, PutResult, Store

WHOLE_OBJECT_S = 0.25
"""Seconds of the limit that an object should be worth which is sent as a whole."""

LEAST_OBJECT_BYTES = 4 * MIB
"""Smaller objects cost more in requests than they save in evenness; ten seconds of 6 MB/s still hold so many of these
that one more is less than a tenth."""


class WritePace(Protocol):
    @property
    def portion_bytes(self) -> int:
        """The most that should be written at once."""

    def pay(self, size_bytes: int) -> None:
        """Wait until so many bytes may be written."""


class PacedStore:
    """Where a `SegmentWriter` has a store to write to: `store`, at the pace of `pace`."""

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
    """How large an object should become at most, where `most` is right without a limit."""
    if not store.sends_at_close:
        return most
    return min(most, max(LEAST_OBJECT_BYTES, int(bytes_per_s * WHOLE_OBJECT_S)))


class _PaidInPortions:
    def __init__(self, writer: ObjectWriter, pace: WritePace) -> None:
        self._writer, self._pace = writer, pace
        self.close, self.abort = writer.close, writer.abort

    def write(self, data: Buffer) -> None:
        left = memoryview(data)
        while left:
            portion = left[: self._pace.portion_bytes]
            self._pace.pay(portion.nbytes)
            self._writer.write(portion)
            left = left[portion.nbytes :]


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
