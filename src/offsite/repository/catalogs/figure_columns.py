"""The figure columns of segments: the figures of a million segments are added up in a second, without creating
segments.

No other column is decoded. pyarrow is imported on use.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from offsite.repository.catalogs.parquet_form import damaged_catalog, integers_of
from offsite.repository.segments.figures import NO_TIMESTAMP_MS, SegmentFigures, oldest_ms

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

FIGURES = ("start", "records", "raw_bytes", "stored_bytes", "base_timestamp_min_ms", "timestamp_max_ms")
"""Names of the columns."""


class FigureColumns:
    """The figures of some rows, in memory."""

    def __init__(self, table: pa.Table, *, key: str) -> None:
        """`table` was read from the object `key`. Raises `DamagedObject` if a column is missing."""
        self._start, *self._sums, self._begun, self._times = (_integers(table, name, key) for name in FIGURES)

    def start(self, row: int) -> int:
        """The first offset of the segment in `row`."""
        return self._start[row]

    def between(self, low: int, high: int) -> SegmentFigures:
        """The sums of rows `[low, high)`, clipped to the existing rows."""
        rows = slice(max(low, 0), high)
        records, raw_bytes, stored_bytes = (sum(column[rows]) for column in self._sums)
        return SegmentFigures(
            records=records,
            raw_bytes=raw_bytes,
            stored_bytes=stored_bytes,
            base_timestamp_min_ms=oldest_ms(self._begun[rows]),
            timestamp_max_ms=max(self._times[rows], default=NO_TIMESTAMP_MS),
        )


def _integers(table: pa.Table, name: str, key: str) -> array[int]:
    if name not in table.column_names:
        raise damaged_catalog(f"{key}: its columns are not the columns of segments")
    return integers_of(table.column(name), key)
