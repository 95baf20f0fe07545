"""What is known of a row group before pyarrow, which has no bounds, decodes the group: the cost of reading, and the
order for rising offsets.

A batch has few enough rows to fit into memory, and columns with a dictionary keep the dictionary: a value exists once,
however many rows refer to the value. Spark writes rows in the order of a shuffle. The small column of offsets alone
shows the range of every row group, and whether the rows rise; the memory for sorting is bounded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from offsite.archives.parquet.pages import BadThrift, Fetch, Page, read_pages, window_bytes
from offsite.log.records.record import Record
from offsite.model.bounds import MAX_RECORD_BYTES
from offsite.model.units import MIB

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow.parquet import ColumnChunkMetaData, FileMetaData, ParquetFile  # type: ignore[import-untyped]

__all__ = ["COLUMNS", "FileClaims", "OffsetSpan", "SortRoom", "find_dictionary_columns", "find_offset_spans"]


COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
_BYTES, _FIXED = "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"
_BATCH_RECORDS = 2_000
_BATCH_BYTES = 64 * MIB
_MAX_PAGES_BYTES = 256 * MIB
"""Total of the largest page per column; the largest pages are open at once."""
_MAX_NESTED_VALUES, _MAX_NESTED_BYTES = 16_000_000, 256 * MIB
"""Values and bytes of headers in a row group; a single row may hold all headers."""
_MIN_PAGES, _BYTES_OF_PAGE = 20_000, 64
_MIN_ROWS, _ROWS_OF_BYTE = 1_000_000, 16
"""Pages and rows per file, whatever the size; and by size."""


def find_dictionary_columns(metadata: FileMetaData) -> list[str]:
    """Return the leaf columns declared to have a dictionary of bytes."""
    columns = set()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for leaf in range(group.num_columns):
            chunk = group.column(leaf)
            has_one = chunk.dictionary_page_offset is not None or any(
                "DICT" in encoding for encoding in chunk.encodings
            )
            if has_one and chunk.physical_type == _BYTES and _is_wanted(chunk):
                columns.add(chunk.path_in_schema)
    return sorted(columns)


@dataclass(slots=True, kw_only=True)
class FileClaims:
    """The claims of a file whose row groups are examined in turn. `columns`: the read columns. Raises `BadThrift` (a
    `ValueError`)."""

    fetch: Fetch
    size_bytes: int
    named: Sequence[str]
    columns: Collection[str] = COLUMNS
    _pages: int = field(init=False, default=0)
    _rows: int = field(init=False, default=0)

    def batch_records(self, metadata: FileMetaData, number: int) -> int:
        """Return how many rows of a row group can be read at once."""
        group = metadata.row_group(number)
        self._rows += group.num_rows
        if self._rows > _MIN_ROWS + _ROWS_OF_BYTE * self.size_bytes:
            raise BadThrift(f"{self._rows} rows in a file of {self.size_bytes} bytes")
        largest, records = 0, _BATCH_RECORDS
        for chunk in (group.column(leaf) for leaf in range(group.num_columns)):
            if _is_wanted(chunk, self.columns):
                pages = self._checked(chunk)
                largest += max((page.plain_bytes for page in pages), default=0)
                records = min(records, self._records(chunk, pages))
        if largest > _MAX_PAGES_BYTES:
            raise BadThrift(f"pages of {largest} bytes that are open at once")
        return records

    def _checked(self, chunk: ColumnChunkMetaData) -> list[Page]:
        starts = [at for at in (chunk.dictionary_page_offset, chunk.data_page_offset) if at]
        pages = []
        for page in read_pages(self.fetch, min(starts, default=0), chunk.total_compressed_size):
            self._pages += 1
            if self._pages > _MIN_PAGES + self.size_bytes // _BYTES_OF_PAGE:
                raise BadThrift(f"{self._pages} pages in a file of {self.size_bytes} bytes")
            if page.plain_bytes > MAX_RECORD_BYTES:
                raise BadThrift(f"a page of {page.plain_bytes} bytes")
            if page.is_named and chunk.physical_type == _BYTES and chunk.path_in_schema not in self.named:
                raise BadThrift(f"a page of {chunk.path_in_schema} with a dictionary that the footer does not mention")
            pages.append(page)
        return pages

    def _records(self, chunk: ColumnChunkMetaData, pages: Sequence[Page]) -> int:
        if "." in chunk.path_in_schema:
            return self._nested_records(chunk, pages)
        records = _BATCH_RECORDS
        if chunk.physical_type == _FIXED:
            largest = max((page.plain_bytes for page in pages), default=0)
            return records if largest <= _BATCH_BYTES // records else 1
        while records > 1 and window_bytes(pages, records) > _BATCH_BYTES:
            records //= 2
        return records

    def _nested_records(self, chunk: ColumnChunkMetaData, pages: Sequence[Page]) -> int:
        values = max(sum(page.values for page in pages), chunk.num_values)
        most_bytes = sum(
            page.plain_bytes * (page.values if page.is_growing else 1) for page in pages if not page.is_named
        )
        if values > _MAX_NESTED_VALUES or most_bytes > _MAX_NESTED_BYTES or chunk.physical_type != _BYTES:
            raise BadThrift(f"{values} values of {chunk.path_in_schema} in a row group, of up to {most_bytes} bytes")
        return _BATCH_RECORDS


def _is_wanted(chunk: ColumnChunkMetaData, columns: Collection[str] = COLUMNS) -> bool:
    return chunk.path_in_schema.partition(".")[0] in columns


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
