"""The segments of catalogs: rows of immutable objects, sorted by partition, and named again by later catalogs.

A partition's segments are slices of a few parts, in the order of the parts' creation. A part is read when a segment is
first needed, and only the row groups around the segment.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from offsite.model.errors import Damaged
from offsite.repository.catalogs.figure_columns import FIGURES, FigureColumns
from offsite.repository.catalogs.parquet_form import damaged_catalog
from offsite.repository.catalogs.segment_rows import schema, segments_of, whole_rows
from offsite.repository.part_ref import PartRef
from offsite.repository.segments.figures import SegmentFigures
from offsite.repository.segments.segment import Segment
from offsite.repository.snapshots.parquet_object import ParquetGroups

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

RecoverSegments: TypeAlias = "Callable[[Damaged], tuple[Segment, ...]]"
"""Reads the segments of a partition from the commits, because of an error in a part."""

KeptT = TypeVar("KeptT")
ToldT = TypeVar("ToldT")

_GROUPS_KEPT = 16
"""Row groups cached per part, about 4 MB each. A walk through the partitions in order reads each group once."""


_ROWS_AT_ONCE = 32
"""Rows decoded at least at a time."""


class CatalogPart:
    """Segments as rows. `ref`: the object with the rows; None for a part of a catalog of the first form, because later
    catalogs cannot name it."""

    def __init__(self, *, ref: PartRef | None, load: Callable[[], bytes] = bytes, remembers: bool = False) -> None:
        """`remembers`: slices stay in memory as segments, for a caller that reads many catalogs with the same part."""
        self.ref = ref
        self._decoded: dict[tuple[int, int], tuple[Segment, ...]] | None = {} if remembers else None
        self._window: tuple[int, tuple[Segment, ...]] = 0, ()
        self._load = load
        self._whole: pa.Table | None = None
        self._file: ParquetGroups | None = None
        self._starts: tuple[int, ...] = ()
        self._groups: OrderedDict[int, pa.Table] = OrderedDict()
        self._figures: OrderedDict[int, FigureColumns] = OrderedDict()

    @classmethod
    def of(cls, table: pa.Table) -> CatalogPart:
        """A part in memory."""
        part = cls(ref=None)
        part._whole = table
        return part

    def __len__(self) -> int:
        return self.ref.rows if self.ref is not None else self._whole.num_rows if self._whole is not None else 0

    def rows(self, low: int, high: int) -> pa.Table:
        """Rows `[low, high)`. Raises `DamagedObject`."""
        import pyarrow as pa

        if self._whole is not None:
            return self._whole.slice(low, high - low)
        if low == high:
            return schema().empty_table()
        self._open()
        first, last = bisect_right(self._starts, low) - 1, bisect_left(self._starts, high)
        joined_groups = pa.concat_tables([self._group(number) for number in range(first, last)])
        return joined_groups.slice(low - self._starts[first], high - low)

    def segments(self, low: int, high: int) -> tuple[Segment, ...]:
        """The segments in rows `[low, high)`. Raises `DamagedObject`."""
        if self._decoded is None:
            return self._near(low, high) if high - low < _ROWS_AT_ONCE else segments_of(self.rows(low, high))
        if (low, high) not in self._decoded:
            self._decoded[low, high] = segments_of(self.rows(low, high))
        return self._decoded[low, high]

    def _near(self, low: int, high: int) -> tuple[Segment, ...]:
        """A few rows, decoded together with the following rows: a walk through the partitions in order needs the
        following rows next, and one row takes as long as ten."""
        begin, decoded = self._window  # one read: concurrent callers replace the pair
        if not begin <= low <= high <= begin + len(decoded):
            try:
                begin, decoded = self._window = low, segments_of(self.rows(low, min(low + _ROWS_AT_ONCE, len(self))))
            except Damaged:
                return segments_of(self.rows(low, high))  # the damaged row may be outside of the range
        return decoded[low - begin : high - begin]

    def figures(self, low: int, high: int) -> SegmentFigures:
        """The figures of rows `[low, high)`; reads only the figure columns. Raises `DamagedObject`."""
        self._open()
        groups = range(bisect_right(self._starts, low) - 1, bisect_left(self._starts, high))
        figures_by_start = ((self._starts[number], self._group_figures(number)) for number in groups)
        return SegmentFigures.of(columns.between(low - begins, high - begins) for begins, columns in figures_by_start)

    def start(self, row: int) -> int:
        """The start offset of the segment in `row`; reads only the figure columns. Raises `DamagedObject`."""
        self._open()
        number = bisect_right(self._starts, row) - 1
        return self._group_figures(number).start(row - self._starts[number])

    def has(self, column: str) -> bool:
        """Whether the rows may have values in an optional column. Raises `DamagedObject`."""
        if self._whole is not None:
            return bool(self._whole.column(column).null_count < self._whole.num_rows)
        self._open()
        return self._file is not None and column in self._file.columns

    def _open(self) -> None:
        if self._whole is not None:
            self._starts = (0, self._whole.num_rows)
        elif self._file is None and self.ref is not None:
            file = ParquetGroups(self._load(), damaged=self._damaged)
            self._starts = tuple(accumulate(file.rows, initial=0))
            if self._starts[-1] != self.ref.rows:
                raise self._damaged(f"it has {self._starts[-1]} rows, not {self.ref.rows}")
            self._file = file

    def _group(self, number: int) -> pa.Table:
        return _recent(self._groups, number, lambda: whole_rows(self._read(number), self._key))

    def _group_figures(self, number: int) -> FigureColumns:
        return _recent(self._figures, number, lambda: FigureColumns(self._read(number, FIGURES), key=self._key))

    def _read(self, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        return self._whole if self._file is None else self._file.read(number, columns)

    @property
    def _key(self) -> str:
        return self.ref.key if self.ref is not None else "a catalog"

    def _damaged(self, problem: str) -> Damaged:
        return damaged_catalog(f"{self._key}: {problem}")


def _recent(cache: OrderedDict[int, KeptT], number: int, read: Callable[[], KeptT]) -> KeptT:
    """The row group of that number, cached as the most recently used. Safe for concurrent callers."""
    group = cache.get(number)
    if group is None:
        group = read()
        while len(cache) >= _GROUPS_KEPT:
            cache.popitem(last=False)
    cache[number] = group
    with suppress(KeyError):
        cache.move_to_end(number)
    return group


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows `[low, high)` of a part."""

    part: CatalogPart
    low: int
    high: int

    def __len__(self) -> int:
        return self.high - self.low


class StoredRows:
    """The segments of one partition in a catalog. `recover` reads the segments from the commits if a part is damaged;
    without `recover` damage is an error."""

    __slots__ = ("_recover", "_rows", "end", "extents")

    def __init__(self, extents: Sequence[RowRange], *, end: int, recover: RecoverSegments | None = None) -> None:
        self.extents = tuple(extents)
        self._rows = sum([extent.high - extent.low for extent in self.extents])
        self.end = end
        self._recover = recover

    def __len__(self) -> int:
        return self._rows

    def start(self) -> int:
        """Raises `DamagedObject`."""
        first = self.extents[0]
        return self._read_or_recover(lambda: first.part.start(first.low), lambda segments: segments[0].start)

    def last(self) -> Segment:
        """Raises `DamagedObject`."""
        *_, segment = self._read(self.extents[-1:], slice(-1, None))
        return segment

    def figures(self) -> SegmentFigures:
        """Raises `DamagedObject`."""
        figures_by_extent = (extent.part.figures(extent.low, extent.high) for extent in self.extents)
        return self._read_or_recover(lambda: SegmentFigures.of(figures_by_extent), SegmentFigures.of)

    def load(self) -> tuple[Segment, ...]:
        """Raises `DamagedObject`."""
        return self._read(self.extents, slice(None))

    def _read(self, extents: Sequence[RowRange], selection: slice) -> tuple[Segment, ...]:
        cut = (
            extent.part.segments(extent.high - 1 if selection.start else extent.low, extent.high) for extent in extents
        )
        return self._read_or_recover(lambda: tuple(chain.from_iterable(cut)), lambda segments: segments[selection])

    def _read_or_recover(self, read: Callable[[], ToldT], by_commits: Callable[[tuple[Segment, ...]], ToldT]) -> ToldT:
        """The result of `read` on the parts; if a part is damaged, the result of `by_commits` on the segments recovered
        from the commits."""
        try:
            return read()
        except Damaged as error:
            if self._recover is None:
                raise
            return by_commits(self._recover(error))
