"""A backup's state as two Parquet objects: the live segments, and the list of commits.

Everything else of the state is JSON in the metadata of the first. Nothing is checked here: the catalog's seal holds the
hash of both. pyarrow is imported where it is used.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.branches import Branch
from offsite.repository.commit import PartitionId
from offsite.repository.commit_json import (
    checkpoint_from_json,
    checkpoint_to_json,
    hole_from_json,
    hole_to_json,
    left_behind_from_json,
    left_behind_to_json,
    partition_from_json,
    partition_to_json,
    position_from_json,
    position_to_json,
    ref_from_json,
    ref_to_json,
    topic_from_json,
    topic_to_json,
)
from offsite.repository.history import COLUMNS, History
from offsite.repository.json_form import FORMAT, FORMAT_PACKS, encode_canonical, parse_part
from offsite.repository.segments.segment import (
    Compression,
    Segment,
    SegmentList,
    segment_from_json,
    segment_to_json,
)
from offsite.repository.snapshots.parquet_object import read_parquet
from offsite.repository.state import BackupState

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_STATE = b"offsite.state"
_SEGMENT_FIELDS = tuple(field.name for field in fields(Segment))
_LISTS = frozenset({"timestamp_types", "leader_epochs"})
_TEXTS = frozenset({"key", "topic", "topic_id", "compression", "hash", "index_key", "index_hash", "pack", "whole"})
_PACKED = {"pack": None, "position": 0, "index_position": 0, "index_bytes": 0}
_PARTED = {"whole": None}
"""The columns that are left out where no segment is in a pack, or a part of another, as in catalogs of format 1, with
what stands for them. `whole` is the JSON of the segment that one is a part of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSlice:
    """The segments of one partition: rows `[low, high)` of a catalog's table."""

    table: pa.Table
    low: int
    high: int
    end: int

    def __len__(self) -> int:
        return self.high - self.low

    def rows(self) -> pa.Table:
        return self.table.slice(self.low, len(self))

    def last(self) -> Segment:
        (segment,) = _segments(self.table.slice(self.high - 1, 1))
        return segment

    def load(self) -> tuple[Segment, ...]:
        return _segments(self.rows())


def encode_state(state: BackupState) -> bytes:
    """All of `state` but its history."""
    import pyarrow as pa

    partitions = sorted(state.segments)
    schema = _schema()
    lists = [*(state.segments[known] for known in partitions), *(branch.segments for branch in state.branches)]
    parts = [part for each in lists for part in _tables(each, schema)]
    table = pa.concat_tables(parts) if parts else schema.empty_table()
    unused = [name for columns in (_PACKED, _PARTED) if _is_empty(table, next(iter(columns))) for name in columns]
    is_plain = not state.branches and len(unused) == len(_PACKED) + len(_PARTED)
    described = encode_canonical(_state_to_json(state, partitions, FORMAT if is_plain else FORMAT_PACKS))
    table = table.drop_columns(unused) if unused else table
    return _to_parquet(table.replace_schema_metadata({_STATE: described}))


def decode_state(data: bytes, *, key: str, history: History) -> BackupState:
    """Read the catalog object `key`; segments stay in columns until they are looked at, and
    raise then if they are none. Raises `DamagedObject`."""
    table = _with_all_columns(_from_parquet(data, key))
    if table.schema != _schema():
        raise damaged_catalog(f"{key}: its columns are not those of segments")
    described = (table.schema.metadata or {}).get(_STATE, b"")
    item = parse_part(described, source=key, damaged=damaged_catalog, newest=FORMAT_PACKS)
    segments, branches = _segment_lists(item, table)
    return BackupState(
        backup=item.text("backup"),
        seq=item.integer("seq"),
        head_hash=item.text("head_hash"),
        committed_at_ms=item.integer("committed_at_ms"),
        topics={shape.incarnation: shape for shape in map(topic_from_json, item.children("topics"))},
        positions={found.partition_id: found for found in map(position_from_json, item.children("positions"))},
        segments=segments,
        branches=branches,
        holes=tuple(map(hole_from_json, item.children("holes"))),
        left_behind=tuple(map(left_behind_from_json, item.children("left_behind"))),
        checkpoints=tuple(map(checkpoint_from_json, item.children("checkpoints"))),
        groups=item.optional_text("groups"),
        metadata=ref_from_json(item.optional_child("metadata")),
        history=history,
    )


def encode_history(history: History) -> bytes:
    import pyarrow as pa

    columns = [pa.array(memoryview(column), type=pa.int64()) for column in history.columns]
    return _to_parquet(pa.table(columns, names=list(COLUMNS)))


def decode_history(data: bytes, *, key: str) -> History:
    """The history in the object `key`. Raises `DamagedObject`."""
    table = _from_parquet(data, key)
    if tuple(table.column_names) != COLUMNS:
        raise damaged_catalog(f"{key}: its columns are not those of a history")
    return History([_integers(column, key) for column in table.columns])


def damaged_catalog(message: str) -> DamagedObject:
    return DamagedObject(message, hint="nothing is lost: the catalog is rebuilt from the commits")


def _integers(column: pa.ChunkedArray, key: str) -> array[int]:
    import pyarrow as pa

    if column.type != pa.int64() or column.null_count:
        raise damaged_catalog(f"{key}: a column does not hold integers")
    numbers = array("q")
    for chunk in column.chunks:
        numbers.frombytes(memoryview(chunk.buffers()[1]).cast("B")[8 * chunk.offset : 8 * (chunk.offset + len(chunk))])
    return numbers


def _schema() -> pa.Schema:
    import pyarrow as pa

    kinds = {"has_transactions": pa.bool_()}
    kinds |= dict.fromkeys(_LISTS, pa.list_(pa.int64())) | dict.fromkeys(_TEXTS, pa.string())
    return pa.schema([(name, kinds.get(name, pa.int64())) for name in _SEGMENT_FIELDS])


def _is_empty(table: pa.Table, name: str) -> bool:
    return bool(table.column(name).null_count == table.num_rows)


def _with_all_columns(table: pa.Table) -> pa.Table:
    """With those that were left out."""
    import pyarrow as pa

    schema, rows = _schema(), table.num_rows
    for columns in (_PACKED, _PARTED):
        if not set(columns).isdisjoint(table.column_names):
            continue
        for name, nothing in columns.items():
            kind = schema.field(name).type
            column = pa.nulls(rows, kind) if nothing is None else pa.repeat(pa.scalar(nothing, kind), rows)
            table = table.append_column(schema.field(name), column)
    names = set(table.column_names)
    return table.select(schema.names) if names == set(schema.names) else table


def _tables(segments: SegmentList, schema: pa.Schema) -> list[pa.Table]:
    """A partition's rows: what came from a catalog goes back as it is, only the tail is turned into columns."""
    import pyarrow as pa

    stored = [segments.stored.rows()] if isinstance(segments.stored, TableSlice) else []
    fresh = segments.tail if stored or not segments.stored else tuple(segments)
    columns = {name: [_cell(getattr(segment, name)) for segment in fresh] for name in _SEGMENT_FIELDS}
    return [*stored, pa.table(columns, schema=schema)]


def _cell(value: object) -> object:
    if isinstance(value, Segment):
        return encode_canonical({"format": FORMAT_PACKS, **segment_to_json(value)}).decode("ascii")
    return value.value if isinstance(value, Compression) else value


def _segments(rows: pa.Table) -> tuple[Segment, ...]:
    """Raises `DamagedObject` for rows that are no segments: whoever forges a catalog can seal it, too."""
    try:
        columns = rows.to_pydict()
        return tuple(_segment(values) for values in zip(*(columns[name] for name in _SEGMENT_FIELDS), strict=True))
    except (ValueError, TypeError, OffsiteError) as error:
        raise damaged_catalog(f"a row of the catalog is no segment: {error}") from error


def _segment(values: Sequence[Any]) -> Segment:
    cells = dict(zip(_SEGMENT_FIELDS, values, strict=True))
    cells["compression"] = Compression(cells["compression"])
    for name in _LISTS:
        cells[name] = tuple(cells[name])
    if (whole := cells["whole"]) is not None:
        part_of = f"a part of {cells['key']}"
        cells["whole"] = segment_from_json(
            parse_part(whole.encode(), source=part_of, damaged=damaged_catalog, newest=FORMAT_PACKS)
        )
    return Segment(**cells)


def _state_to_json(state: BackupState, partitions: Sequence[PartitionId], format_: int) -> dict[str, JsonValue]:
    known: dict[str, JsonValue] = {
        "format": format_,
        "backup": state.backup,
        "seq": state.seq,
        "head_hash": state.head_hash,
        "committed_at_ms": state.committed_at_ms,
        "topics": [topic_to_json(shape) for shape in state.topics.values()],
        "positions": [position_to_json(position) for position in state.positions.values()],
        "holes": [hole_to_json(hole) for hole in state.holes],
        "left_behind": [left_behind_to_json(each) for each in state.left_behind],
        "checkpoints": [checkpoint_to_json(taken) for taken in state.checkpoints],
        "groups": state.groups,
        "metadata": ref_to_json(state.metadata),
        "partitions": [_rows_to_json(each, state.segments[each]) for each in partitions],
    }
    branches = [
        _rows_to_json(each.partition_id, each.segments)
        | {"number": each.number, "at": each.at, "closed_end": each.end, "commit": each.commit}
        for each in state.branches
    ]
    return known | ({"branches": branches} if branches else {})


def _rows_to_json(partition_id: PartitionId, segments: SegmentList) -> dict[str, JsonValue]:
    return {**partition_to_json(partition_id), "rows": len(segments), "end": segments.end}


def _segment_lists(item: JsonObject, table: pa.Table) -> tuple[dict[PartitionId, SegmentList], tuple[Branch, ...]]:
    """The live ones of each partition, and the branches: their rows follow each other."""
    parts = item.children("partitions")
    closed = item.children("branches")
    low = 0
    lists: list[SegmentList] = []
    for part in (*parts, *closed):
        high = low + part.count("rows")
        lists.append(SegmentList(stored=TableSlice(table=table, low=low, high=high, end=part.integer("end"))))
        low = high
    if low != table.num_rows:
        raise item.damaged(f"{table.num_rows} rows for {low} segments")
    live = {partition_from_json(part): found for part, found in zip(parts, lists, strict=False)}
    return live, tuple(_branch(part, found) for part, found in zip(closed, lists[len(parts) :], strict=True))


def _branch(part: JsonObject, segments: SegmentList) -> Branch:
    return Branch(
        partition_id=partition_from_json(part),
        number=part.count("number"),
        at=part.count("at"),
        end=part.count("closed_end"),
        commit=part.count("commit"),
        segments=segments,
    )


def _to_parquet(table: pa.Table) -> bytes:
    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def _from_parquet(data: bytes, key: str) -> pa.Table:
    import pyarrow as pa

    try:
        return read_parquet(data)
    except (pa.ArrowException, OSError) as error:
        raise damaged_catalog(f"{key}: {error}") from error
