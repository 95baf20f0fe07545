"""The Parquet archive as a partitioned table for Spark: its layout, and records as Arrow tables and back, in the
columns of Spark's Kafka source and two more. Files written there by Spark are read too.

Folders give topic and partition, as in Spark's tables: readers fail on columns that are in both. Times are whole
milliseconds, stored as microseconds. A record without headers has null, as from Spark's source. `leaderEpoch` and
`producerId` belong to batches, unknown to records: both columns exist and hold null. pyarrow is imported on use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate, chain, pairwise, repeat
from typing import TYPE_CHECKING, Any

from offsite.archives.files import Files
from offsite.archives.indexed.archive import RECORDS_ONLY, IndexedArchive
from offsite.archives.indexed.layout import ArchiveLayout
from offsite.archives.indexed.writing import Losses
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record, RecordHeaders
from offsite.log.records.record_arrow import MAX_TIME_MS
from offsite.log.records.record_columns import RecordColumns

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


PARQUET = "parquet"
_LAYOUT = ArchiveLayout(
    topics="topic=",
    suffixes=(".parquet",),
    any_name=True,
    advice="write the table of Spark's Kafka source with .write.partitionBy('topic', 'partition').parquet(…); the "
    "columns key, value, offset and timestamp are required",
)
_UNITS_PER_MS = {"ns": 1_000_000, "us": 1_000, "ms": 1}
_NEEDED = ("key", "value", "offset", "timestamp")
_MAX_NAMED, _MAX_NAME, _MAX_TYPE = 12, 40, 200


def parquet_archive(files: Files) -> IndexedArchive:
    return IndexedArchive(files=files, layout=_LAYOUT, kinds={PARQUET: (RECORDS_ONLY,)})


class BadTable(ValueError):
    """The table holds no Kafka rows, or rows of another partition."""


class OtherColumns(BadTable):
    """The table is intact, but has other columns than Spark's Kafka source, or rows of another place."""


@cache
def table_schema() -> pa.Schema:
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    return pa.schema(
        [
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("offset", pa.int64()),
            pa.field("timestamp", pa.timestamp("us", tz="UTC")),
            pa.field("timestampType", pa.int32()),
            pa.field("headers", pa.list_(header)),
            pa.field("leaderEpoch", pa.int32()),
            pa.field("producerId", pa.int64()),
        ]
    )


def make_table(columns: RecordColumns, losses: Losses) -> pa.Table:
    """Make the table of records. Raises `NotRepresentable` for times outside the timestamp range, and header names
    outside UTF-8."""
    import pyarrow as pa

    schema, rows = table_schema(), len(columns.offsets)
    return pa.Table.from_arrays(
        [
            pa.array(columns.keys, pa.binary()),
            pa.array(columns.values, pa.binary()),
            pa.array(columns.offsets, pa.int64()),
            pa.array(_microseconds(columns, losses), pa.int64()).cast(schema.field("timestamp").type),
            pa.array(columns.timestamp_types, pa.int32()),
            _header_array(columns, losses),
            pa.nulls(rows, pa.int32()),
            pa.nulls(rows, pa.int64()),
        ],
        schema=schema,
    )


def _microseconds(columns: RecordColumns, losses: Losses) -> Sequence[int | None]:
    times = columns.timestamps_ms
    if min(times) >= -MAX_TIME_MS and max(times) <= MAX_TIME_MS:
        return [time_ms * 1000 for time_ms in times]
    for offset, time_ms in zip(columns.offsets, times, strict=True):
        if abs(time_ms) > MAX_TIME_MS:
            losses.note(offset, "a timestamp that does not fit into microseconds, which becomes null")
    return [time_ms * 1000 if abs(time_ms) <= MAX_TIME_MS else None for time_ms in times]


def _header_array(columns: RecordColumns, losses: Losses) -> pa.Array:
    import pyarrow as pa

    kind = table_schema().field("headers").type
    if not any(columns.headers):
        return pa.nulls(len(columns.offsets), kind)
    pairs = list(chain.from_iterable(columns.headers))
    names = [_name(name) for name, _ in pairs]
    if any(name != pair[0] for name, pair in zip(names, pairs, strict=True)):
        _note_names(columns, losses)
    ends = list(accumulate(map(len, columns.headers), initial=0))
    starts = [start if headers else None for start, headers in zip(ends, columns.headers, strict=False)]
    entries = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array([value for _, value in pairs], pa.binary())],
        fields=list(kind.value_type),
    )
    return pa.ListArray.from_arrays(pa.array([*starts, ends[-1]], pa.int32()), entries, type=kind)


def _name(name: str) -> str:
    return name if name.isascii() else name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _note_names(columns: RecordColumns, losses: Losses) -> None:
    for offset, headers in zip(columns.offsets, columns.headers, strict=True):
        if any(_name(name) != name for name, _ in headers):
            losses.note(offset, "a header whose name is not UTF-8, whose other bytes become U+FFFD")


def decode_rows(batch: pa.RecordBatch, of: TopicPartition) -> Sequence[Record]:
    """Decode the rows of a batch with checked columns, in order. Columns optional in Spark may be missing. Raises
    `BadTable`."""
    _check_partition(batch, of)
    offsets, kinds = _integers(batch, "offset"), _integers(batch, "timestampType")
    if None in offsets:
        raise BadTable("a row without an offset")
    if offsets and min(offsets) < 0:
        raise BadTable(f"offset {min(offsets)} is impossible")
    kinds = kinds or [0] * len(offsets)
    keys, values = _blobs(batch["key"]), _blobs(batch["value"])
    return list(map(Record, offsets, _milliseconds(batch), kinds, keys, values, _headers(batch)))


def check_columns(schema: pa.Schema) -> None:
    """Check the mandatory columns, and the types of all read columns. Raises `OtherColumns`."""
    if missing := [name for name in _NEEDED if name not in schema.names]:
        present = ", ".join(name[:_MAX_NAME] for name in schema.names[:_MAX_NAMED]) or "none"
        raise OtherColumns(f"there is no column {missing[0]!r}; there are {present}")
    for name, is_readable in _READABLE.items():
        columns = [schema.field(number) for number in schema.get_all_field_indices(name)]
        if len(columns) > 1:
            raise OtherColumns(f"{len(columns)} columns {name!r}")
        if columns and not is_readable(kind := _plain(columns[0].type)):
            raise OtherColumns(f"{name} of type {str(kind)[:_MAX_TYPE]}")


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values, without a dictionary."""
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_blob(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return _is_bytes(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_null(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or _is_text(kind)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_large_string(kind)  # type: ignore[no-any-return]


def _is_integer(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_integer(kind)  # type: ignore[no-any-return]


def _is_time(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_timestamp(kind) and kind.unit in _UNITS_PER_MS


def _is_header_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_null(kind) or not pa.types.is_list(kind):
        return pa.types.is_null(kind)  # type: ignore[no-any-return]
    entry = kind.value_type
    fields = {field.name: field.type for field in entry} if pa.types.is_struct(entry) else {}
    return {"key", "value"} <= fields.keys() and all(_is_bytes(_plain(fields[name])) for name in ("key", "value"))


_READABLE: dict[str, Callable[[pa.DataType], bool]] = {
    "topic": _is_text,
    "partition": _is_integer,
    "offset": _is_integer,
    "timestamp": _is_time,
    "timestampType": _is_integer,
    "key": _is_blob,
    "value": _is_blob,
    "headers": _is_header_list,
}
"""Per read column: whether a type is readable."""


def _integers(batch: pa.RecordBatch, name: str) -> list[Any]:
    import pyarrow as pa

    if name not in batch.schema.names:
        return []
    return batch[name].cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]


def _blobs(column: pa.Array) -> list[bytes | None]:
    """Return the values; rows with the same dictionary entry share one object."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        numbers = column.indices.unique().drop_null()
        named = dict(zip(numbers.to_pylist(), _blobs(column.dictionary.take(numbers)), strict=True))
        return list(map(named.get, column.indices.to_pylist()))
    return (column.cast(pa.large_binary()) if _is_text(column.type) else column).to_pylist()  # type: ignore[no-any-return]


def _check_partition(batch: pa.RecordBatch, of: TopicPartition) -> None:
    for name, expected in (("topic", of.topic), ("partition", of.partition)):
        if name in batch.schema.names and (other := set(batch[name].unique().to_pylist()) - {expected}):
            raise OtherColumns(f"rows of {name} {other.pop()}, not of {of}")


def _milliseconds(batch: pa.RecordBatch) -> Iterator[int]:
    import pyarrow as pa

    column = batch["timestamp"]
    unit = _UNITS_PER_MS[column.type.unit]
    return (-1 if time is None else time // unit for time in column.cast(pa.int64()).to_pylist())


def _headers(batch: pa.RecordBatch) -> Iterator[RecordHeaders]:
    if "headers" not in batch.schema.names or batch["headers"].null_count == len(batch):
        return repeat((), len(batch))
    column = batch["headers"]
    entries = column.flatten()
    parts = dict(zip(entries.type.names, entries.flatten(), strict=True))
    keys = _blobs(parts["key"])
    if None in keys:
        raise BadTable("a header without a name")
    pairs = [(key.decode(), value) for key, value in zip(keys, _blobs(parts["value"]), strict=True) if key is not None]
    ends = accumulate((length or 0 for length in column.value_lengths().to_pylist()), initial=0)
    return (tuple(pairs[start:end]) for start, end in pairwise(ends))
