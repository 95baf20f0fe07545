"""The segments of catalogs: rows of immutable objects, sorted by partition, and named again by later catalogs.

A partition's segments are slices of a few parts, in the order of the parts' creation. A part is read when a segment is
first needed, and only the row groups around the segment. With the figure columns alone, the figures of a million
segments are added up in a second, without creating segments. pyarrow is imported on use.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from offsite.model.errors import Damaged, OffsiteError
from offsite.repository.commit_history import PartRef
from offsite.repository.json_form import FORMAT_PACKS, NEWEST_FORMAT, encode_canonical, parse_part
from offsite.repository.parquet import ParquetGroups, damaged_catalog, integers_of
from offsite.repository.segments.segment import (
    NO_TIMESTAMP_MS,
    Compression,
    Segment,
    SegmentFigures,
    oldest_ms,
    segment_from_json,
    segment_to_json,
)

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


_FIELDS = tuple(field.name for field in fields(Segment))
_CELLS = attrgetter(*(f"{name}.value" if name == "compression" else name for name in _FIELDS if name != "whole"))
_LISTS = frozenset({"timestamp_types", "leader_epochs"})
_TEXTS = frozenset({"key", "topic", "topic_id", "compression", "hash", "index_key", "index_hash", "pack", "whole"})
_PACKED = {"pack": None, "position": 0, "index_position": 0, "index_bytes": 0}
_PARTED = {"whole": None}
"""The columns left out if no segment is packed, or none is a part of another segment, with their defaults. `whole` is
the JSON of the whole segment of a part."""

REPEATED = ("topic", "topic_id", "compression", "pack")
"""Text columns with values common to many rows."""

SORTED = ("key", "index_key")
"""Text columns with values that share a prefix with the previous row."""

COUNTED = ("partition", "start", "end", "first_offset", "last_offset", "base_timestamp_min_ms", "timestamp_max_ms")
"""Number columns with values close to the previous row."""

FIGURES = ("start", "records", "raw_bytes", "stored_bytes", "base_timestamp_min_ms", "timestamp_max_ms")
"""Names of the columns."""
_GROUPS_KEPT = 16
"""Row groups cached per part, about 4 MB each. A walk through the partitions in order reads each group once."""
_ROWS_AT_ONCE = 32
"""Rows decoded at least at a time."""


def schema() -> pa.Schema:
    import pyarrow as pa

    kinds = {"has_transactions": pa.bool_()}
    kinds |= dict.fromkeys(_LISTS, pa.list_(pa.int64())) | dict.fromkeys(_TEXTS, pa.string())
    return pa.schema([(name, kinds.get(name, pa.int64())) for name in _FIELDS])


def schema_with(*, packs: bool, parts: bool) -> pa.Schema:
    """The schema without the columns of packs or of segment parts, if unused."""
    import pyarrow as pa

    unused = {*(() if packs else _PACKED), *(() if parts else _PARTED)}
    return pa.schema([field for field in schema() if field.name not in unused])


def table_of(segments: Sequence[Segment]) -> pa.Table:
    import pyarrow as pa

    columns = (
        zip(*((*_CELLS(segment), _whole(segment)) for segment in segments), strict=True)
        if segments
        else ([],) * len(_FIELDS)
    )
    return pa.table(dict(zip(_FIELDS, map(list, columns), strict=True)), schema=schema())


def _whole(segment: Segment) -> str | None:
    if segment.whole is None:
        return None
    return encode_canonical({"format": FORMAT_PACKS, **segment_to_json(segment.whole)}).decode("ascii")


def whole_rows(table: pa.Table, key: str) -> pa.Table:
    """A table read from the object `key`, with the omitted columns added. Raises `DamagedObject`."""
    import pyarrow as pa

    expected = schema()
    for columns in (_PACKED, _PARTED):
        if not set(columns).isdisjoint(table.column_names):
            continue
        for name, nothing in columns.items():
            kind, rows = expected.field(name).type, table.num_rows
            column = pa.nulls(rows, kind) if nothing is None else pa.repeat(pa.scalar(nothing, kind), rows)
            table = table.append_column(expected.field(name), column)
    if set(table.column_names) == set(expected.names):
        table = table.select(expected.names)
    if not table.schema.equals(expected):
        raise damaged_catalog(f"{key}: its columns are not the columns of segments")
    return table


def segments_of(rows: pa.Table) -> tuple[Segment, ...]:
    """Raises `DamagedObject` for rows that are no segments: a forger of a catalog can also seal it."""
    try:
        columns = rows.to_pydict()
        return tuple(_segment(values) for values in zip(*(columns[name] for name in _FIELDS), strict=True))
    except (ValueError, TypeError, OffsiteError) as error:
        raise damaged_catalog(f"a row of the catalog is not a segment: {error}") from error


def _segment(values: Sequence[Any]) -> Segment:
    cells = dict(zip(_FIELDS, values, strict=True))
    cells["compression"] = Compression(cells["compression"])
    for name in _LISTS:
        cells[name] = tuple(cells[name])
    if (whole := cells["whole"]) is not None:
        source = f"a part of {cells['key']}"
        document = parse_part(whole.encode(), source=source, damaged=damaged_catalog, newest=NEWEST_FORMAT)
        cells["whole"] = segment_from_json(document)
    return Segment(**cells)


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


RecoverSegments: TypeAlias = "Callable[[Damaged], tuple[Segment, ...]]"
"""Reads the segments of a partition from the commits, because of an error in a part."""

KeptT = TypeVar("KeptT")
ToldT = TypeVar("ToldT")


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

    def timestamp_ms(self, at: int) -> int:
        """Raises `DamagedObject`."""
        extent = self.extents[at]
        row = extent.low if at == 0 else extent.high - 1
        return self._read_or_recover(
            lambda: extent.part.figures(row, row + 1).timestamp_max_ms, lambda segments: segments[at].timestamp_max_ms
        )

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
