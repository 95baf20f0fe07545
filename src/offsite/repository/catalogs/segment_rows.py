"""Segments as rows of a table. pyarrow is imported on use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from offsite.model.errors import OffsiteError
from offsite.repository.catalogs.parquet_form import damaged_catalog
from offsite.repository.json_form import FORMAT_PACKS, NEWEST_FORMAT, encode_canonical, parse_part
from offsite.repository.segments.segment import Compression, Segment, segment_from_json, segment_to_json

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
