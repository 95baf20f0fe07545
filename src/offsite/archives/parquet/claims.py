"""Bounds the reading cost of a row group before pyarrow decodes the group; pyarrow has no bounds.

A batch has few enough rows to fit into memory, and columns with a dictionary keep the dictionary: a value exists once,
however many rows refer to the value.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offsite.archives.parquet.pages import Fetch, Page, read_pages, window_bytes
from offsite.archives.parquet.thrift import BadThrift
from offsite.model.bounds import MAX_RECORD_BYTES
from offsite.model.units import MIB

if TYPE_CHECKING:
    from pyarrow.parquet import ColumnChunkMetaData, FileMetaData  # type: ignore[import-untyped]

__all__ = ["COLUMNS", "FileClaims", "find_dictionary_columns"]

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
