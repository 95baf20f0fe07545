"""Records in columns: passes many records, or their keys alone, on without an object per record.

A column costs less than a third of its records, and holds few objects for the garbage collector. A compaction needs no
more than the keys by offset of most records, and nothing more is built.

Python's collector scans all young objects after 700 new ones, and after a while all objects of the process. Records
come and go by the thousand and never form cycles, so `rare_collections` keeps the collector from scanning them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress, repeat
from operator import attrgetter, lt
from threading import Lock
from typing import NamedTuple

from offsite.log.batch import BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.records.batch_records import decode, decode_rows
from offsite.log.records.record import Record, RecordHeaders
from offsite.model.errors import check

_OFFSET, _TIME, _KEY, _VALUE, _HEADERS = map(attrgetter, ("offset", "timestamp", "key", "value", "headers"))

_YOUNG_OBJECTS = 20_000
"""More than the records in memory at once, which are a few thousand; few enough that cycles of further code cannot grow
large meanwhile."""


class RecordColumns(NamedTuple):
    """The fields of records, one sequence per field, all of the length of `offsets`; may be empty."""

    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    timestamp_types: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[RecordHeaders]

    @classmethod
    def of(cls, records: Sequence[Record]) -> RecordColumns:
        return cls(*zip(*records, strict=True)) if records else cls((), (), (), (), (), ())

    def records(self) -> list[Record]:
        return list(map(Record, *self))

    def part(self, start: int, end: int) -> RecordColumns:
        """The records at the indexes `[start, end)`."""
        return RecordColumns._make(column[start:end] for column in self)

    def within(self, start: int, end: int) -> RecordColumns:
        """The records at offsets in `[start, end)`."""
        if not self.offsets or (start <= self.offsets[0] and self.offsets[-1] < end):
            return self
        keep = [start <= offset < end for offset in self.offsets]
        return RecordColumns._make(list(compress(column, keep)) for column in self)

    def check_rise(self) -> None:
        """Raise `Bug` unless the offsets rise."""
        check(all(map(lt, self.offsets, self.offsets[1:])), f"offsets fall after {min(self.offsets, default=0)}")

    def size_bytes(self) -> int:
        """The bytes of keys, values and header values."""
        return blob_bytes(self.keys) + blob_bytes(self.values) + self.header_bytes()

    def header_bytes(self) -> int:
        return (
            sum(len(value) for record_headers in self.headers for _, value in record_headers if value)
            if any(self.headers)
            else 0
        )


def read_columns(batch: Buffer, header: BatchHeader) -> RecordColumns:
    """The records of `decode`, in columns. Raises as `decode`."""
    listed = decode_rows(batch, header)
    if listed is None:
        return RecordColumns.of(decode(batch, header))
    rows = listed.rows
    has_headers = any(map(_HEADERS, rows))
    return RecordColumns(
        list(map(_OFFSET, rows)),
        list(map(_TIME, rows)),
        [header.timestamp_type] * len(rows),
        list(map(_KEY, rows)),
        list(map(_VALUE, rows)),
        list(map(tuple, map(_HEADERS, rows)) if has_headers else repeat((), len(rows))),
    )


def blob_bytes(blobs: Iterable[bytes | None]) -> int:
    return sum(map(len, filter(None, blobs)))


class KeyedRecords(NamedTuple):
    """The keys (None: no key), offsets and values (None: a tombstone) of the records of a batch."""

    keys: Sequence[bytes | None]
    offsets: Sequence[int]
    values: Sequence[bytes | None]

    def within(self, start: int, end: int) -> KeyedRecords:
        """The records at offsets in `[start, end)`."""
        places = [place for place, offset in enumerate(self.offsets) if start <= offset < end]
        keys, offsets, values = self
        return KeyedRecords(
            [keys[place] for place in places], [offsets[place] for place in places], [values[place] for place in places]
        )


def keyed_records(batch: Buffer, header: BatchHeader) -> KeyedRecords:
    """The keys of a data batch (`header.view(data)`), in order. Raises `DamagedBatch`."""
    listed = decode_rows(batch, header)
    rows = decode(batch, header) if listed is None else listed.rows
    offsets = list(map(_OFFSET, rows)) if header.has_gaps else range(header.base_offset, header.next_offset)
    return KeyedRecords(list(map(_KEY, rows)), offsets, list(map(_VALUE, rows)))


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect less often inside, in the whole process; restore the thresholds when the last block ends. A process with
    even rarer collections, or none, stays as it is."""
    _collector.slow_down()
    try:
        yield
    finally:
        _collector.speed_up()


class _Collector:
    """Counts the open blocks, in all threads, and remembers the thresholds before the first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before = (0, 0, 0)

    def slow_down(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                young, *older = self._before = gc.get_threshold()
                if 0 < young < _YOUNG_OBJECTS:
                    gc.set_threshold(_YOUNG_OBJECTS, *older)

    def speed_up(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                gc.set_threshold(*self._before)


_collector = _Collector()
