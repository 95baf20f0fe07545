"""Finds the reading order of row groups for rising offsets, and bounds the memory for sorting.

Spark writes rows in the order of a shuffle. The small column of offsets alone shows the range of every row group, and
whether the rows rise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from offsite.archives.parquet.claims import FileClaims, find_dictionary_columns
from offsite.archives.parquet.pages import Fetch
from offsite.log.records.record import Record
from offsite.model.units import MIB

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped]

__all__ = ["OffsetSpan", "SortRoom", "find_offset_spans"]

SORTED_BYTES = 256 * MIB
"""Memory for sorting records of a partition, in all open files together."""
_RECORD_BYTES, _HEADER_BYTES = 300, 200
"""Memory of a record, and of a header, besides the bytes."""
_BATCH_ROWS = 65_536


class OffsetSpan(NamedTuple):
    """Row group `number`: all offsets are in `[low, high]`. `rises`: the rows are in order."""

    number: int
    low: int
    high: int
    rises: bool


class SortRoom:
    """Memory for sorted records, shared by all open files."""

    def __init__(self) -> None:
        self._bytes = 0

    @contextmanager
    def part(self) -> Iterator[RoomPart]:
        """Yield a share of the room; the share is returned at the end."""
        part = RoomPart(room=self)
        try:
            yield part
        finally:
            self._bytes -= part.size_bytes

    def add(self, size_bytes: int) -> bool:
        """Take memory; returns whether the total fits."""
        self._bytes += size_bytes
        return self._bytes <= SORTED_BYTES


@dataclass(slots=True, kw_only=True)
class RoomPart:
    """The share of a file."""

    room: SortRoom
    size_bytes: int = 0

    def take(self, records: Sequence[Record]) -> bool:
        """Take memory for records; returns whether the records fit."""
        size_bytes = sum(map(_memory_bytes, records))
        self.size_bytes += size_bytes
        return self.room.add(size_bytes)


def _memory_bytes(record: Record) -> int:
    headers = sum(_HEADER_BYTES + len(name) + len(value or b"") for name, value in record.headers)
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers


def find_offset_spans(file: ParquetFile, fetch: Fetch, size_bytes: int) -> list[OffsetSpan]:
    """Return the spans of the row groups. A row group without readable offsets gets an empty span behind the previous
    row group and never mixes: reading reports the problem."""
    claims = FileClaims(
        fetch=fetch, size_bytes=size_bytes, named=find_dictionary_columns(file.metadata), columns=frozenset(("offset",))
    )
    spans: list[OffsetSpan] = []
    for number in range(file.num_row_groups):
        span = _span(file, number, claims)
        after = spans[-1].high if spans else -1
        spans.append(span or OffsetSpan(number, after + 1, after, rises=True))
    return spans


def _span(file: ParquetFile, number: int, claims: FileClaims) -> OffsetSpan | None:
    """Return None for a row group without rows or without readable offsets."""
    import pyarrow as pa

    low = high = None
    rises = True
    try:
        claims.batch_records(file.metadata, number)
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=[number], columns=["offset"], use_threads=False):
            first, least, most, in_order = _looked_at(batch.column(0))
            if least is None or most is None:
                return None
            rises = rises and in_order and (high is None or first >= high)
            low, high = min(least, least if low is None else low), max(most, most if high is None else high)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError):
        return None
    return None if low is None or high is None else OffsetSpan(number, low, high, rises)


def _looked_at(offsets: pa.Array) -> tuple[int, int | None, int | None, bool]:
    """Return the first, least and greatest offset, and whether no offset decreases."""
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    if offsets.null_count or not len(offsets) or not pa.types.is_integer(offsets.type):
        return -1, None, None, False
    ends = pc.min_max(offsets).as_py()
    in_order = pc.all(pc.greater_equal(offsets[1:], offsets[:-1])).as_py() is not False
    return offsets[0].as_py(), ends["min"], ends["max"], in_order
