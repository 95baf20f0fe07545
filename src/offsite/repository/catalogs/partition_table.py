"""The state of a backup as a table with one row per partition: position, and place of the segments.

The rest of the state is JSON in the table's metadata: topics, holes and the like. No part of the JSON grows with
partitions times time. pyarrow is imported on use.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from offsite.log.batch import LastBatch
from offsite.log.range import PartitionId
from offsite.model.bounds import MAX_EPOCH, MAX_PARTITIONS
from offsite.model.errors import OffsiteError, check
from offsite.model.names import is_topic_name
from offsite.model.untrusted.json_codec import JsonCodec
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.catalogs.segment_table import CatalogPart, RecoverSegments, RowRange, StoredRows
from offsite.repository.commit import NO_EPOCH, CompactedRange, Position, SnapshotRef, TopicShape
from offsite.repository.json_form import (
    FORMAT,
    FORMAT_PACKS,
    FORMAT_REGISTRY,
    FORMAT_RETENTION,
    NEWEST_FORMAT,
    encode_canonical,
    parse_part,
)
from offsite.repository.parquet import damaged_catalog, from_parquet, integers_of
from offsite.repository.segments.segment import SegmentList
from offsite.repository.state import BackupState, CutSpan, LayeredMap, spans_of

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_STATE = b"offsite.state"
_TEXTS = ("topic", "topic_id")
_NUMBERS = ("partition", "log_start", "end", "leader_epoch", "last_offset", "crc", "segments_end")
_NO_BATCH = -1
"""Last offset and CRC if no batch is known."""

_LISTS = ("parts", "lows", "highs")


def encode_partitions(state: BackupState, parts: Sequence[CatalogPart]) -> bytes:
    """All of `state` except the history and the segments, which are in `parts`."""
    import pyarrow as pa
    from pyarrow import parquet

    check(not state.segments.keys() - state.positions.keys(), "a partition has segments and no position")
    columns = zip(*_rows(state, parts), strict=True) if state.positions else ([] for _ in _schema().names)
    table = pa.table(dict(zip(_schema().names, map(list, columns), strict=True)), schema=_schema())
    described = encode_canonical(state_to_json(state))
    sink = io.BytesIO()
    parquet.write_table(
        table.replace_schema_metadata({_STATE: described}), sink, compression="zstd", write_statistics=False
    )
    return sink.getvalue()


def decode_partitions(
    data: bytes, *, key: str, parts: Sequence[CatalogPart], recovery_of: Callable[[PartitionId], RecoverSegments | None]
) -> BackupState:
    """Read the object `key` of a state whose segments are in `parts`. `recovery_of` gives, per partition, a function
    that reads the segments from the commits if a part is damaged. Raises `DamagedObject`."""
    table = from_parquet(data, key)
    if not table.schema.equals(_schema()):
        raise damaged_catalog(f"{key}: its columns are not the columns of partitions")
    described = (table.schema.metadata or {}).get(_STATE, b"")
    document = parse_part(described, source=key, damaged=damaged_catalog, newest=NEWEST_FORMAT)
    try:
        texts = [table.column(name).to_pylist() for name in _TEXTS]
        *numbers, ends = (integers_of(table.column(name), key) for name in _NUMBERS)
        positions = [_position(row) for row in zip(*texts, *numbers, strict=True)]
        rows = zip(positions, ends, _extents(table, key, parts), strict=True)
        segments = {
            at.partition_id: SegmentList(stored=StoredRows(extents, end=end, recover=recovery_of(at.partition_id)))
            for at, end, extents in rows
            if extents
        }
    except (ValueError, TypeError, IndexError, OffsiteError) as error:
        raise damaged_catalog(f"{key}: a row is not a partition: {error}") from error
    state = state_from_json(document)
    return replace(
        state,
        accounted=state.accounted or any(position.is_exact for position in positions),  # one version added both
        positions=LayeredMap({position.partition_id: position for position in positions}),
        segments=LayeredMap(segments),
    )


_CODEC, _TOPIC, _COMPACTED = JsonCodec(BackupState, early=("cut",)), JsonCodec(TopicShape), JsonCodec(CompactedRange)


def state_to_json(state: BackupState) -> dict[str, JsonValue]:
    """The fields of the state without a column. What `BackupState` does not declare depends on several fields."""
    fields: dict[str, JsonValue] = {
        "format": _format_of(state),
        **_CODEC.write(state),
        "topics": [_topic_to_json(shape, state) for shape in state.topics.values()],
    }
    if state.completed_at_ms != _usually_completed(state):
        fields["completed_at_ms"] = state.completed_at_ms
    if state.compacted:
        fields["compacted"] = list(map(_COMPACTED.write, _compacted_ranges(state)))
    return fields


def _topic_to_json(shape: TopicShape, state: BackupState) -> dict[str, JsonValue]:
    """Catalogs of earlier versions lack `configs_since`; readers then use the catalog's own commit."""
    return _TOPIC.write(shape) | {"configs_since": state.configs_since.get(shape.incarnation, state.seq)}


def _usually_completed(state: BackupState) -> int:
    """The default of `completed_at_ms`: the time of the newest commit; 0 for an incomplete run."""
    return 0 if state.incomplete else state.committed_at_ms


def _format_of(state: BackupState) -> int:
    if state.registry is not None:
        return FORMAT_REGISTRY
    if state.expired or state.compacted or state.pins or any(branch.expired for branch in state.branches):
        return FORMAT_RETENTION
    return FORMAT_PACKS if state.branches else FORMAT


def _compacted_ranges(state: BackupState) -> Iterator[CompactedRange]:
    for partition, spans in state.compacted.items():
        for start, end in spans:
            until_ms = state.compacted_until.get(partition, -1)
            yield CompactedRange(partition_id=partition, start=start, end=end, until_ms=until_ms)


def _latest_times(compacted: Iterable[CompactedRange]) -> Mapping[PartitionId, int]:
    latest: dict[PartitionId, int] = {}
    for stretch in compacted:
        latest[stretch.partition_id] = max(stretch.until_ms, latest.get(stretch.partition_id, -1))
    return latest


def state_from_json(document: JsonObject) -> BackupState:
    """The state, without the fields in columns."""
    is_incomplete, seq = document.optional_flag("incomplete"), document.integer("seq")
    topics = [(_TOPIC.read(topic), topic.integer_or("configs_since", seq)) for topic in document.children("topics")]
    compacted = list(map(_COMPACTED.read, document.children("compacted")))
    completed_at_ms = document.integer_or(
        "completed_at_ms", 0 if is_incomplete else document.integer("committed_at_ms")
    )
    state = _CODEC.read(document)
    return replace(
        state,
        topics=LayeredMap({shape.incarnation: shape for shape, _ in topics}),
        configs_since=LayeredMap({shape.incarnation: since for shape, since in topics}),
        compacted=spans_of(compacted),
        compacted_until=_latest_times(compacted),
        completed_at_ms=completed_at_ms,
        cuts=state.cuts or _lone_cut(state.cut, seq, completed_at_ms),
    )


def _lone_cut(cut: SnapshotRef | None, seq: int, completed_at_ms: int) -> tuple[CutSpan, ...]:
    """The cuts in a catalog of an earlier version: only the cut of its own commit."""
    return () if cut is None else (CutSpan(first=seq, last=seq, completed_at_ms=completed_at_ms, ref=cut),)


def _schema() -> pa.Schema:
    import pyarrow as pa

    texts = [pa.field(name, pa.string(), nullable=False) for name in _TEXTS]
    numbers = [pa.field(name, pa.int64(), nullable=False) for name in _NUMBERS]
    return pa.schema([*texts, *numbers, *(pa.field(name, pa.list_(pa.int64()), nullable=False) for name in _LISTS)])


def _rows(state: BackupState, parts: Sequence[CatalogPart]) -> Iterator[tuple[object, ...]]:
    numbers = {part: number for number, part in enumerate(parts)}
    segments = dict(state.segments)
    for partition, position in state.positions.items():
        last, listed = position.last_batch, segments.get(partition)
        extents = listed.stored.extents if listed is not None and isinstance(listed.stored, StoredRows) else ()
        yield (
            partition.topic,
            partition.topic_id,
            partition.partition,
            position.log_start,
            position.end,
            position.leader_epoch,
            _NO_BATCH if last is None else last.last_offset,
            _NO_BATCH if last is None else last.crc,
            0 if listed is None else listed.end,
            [numbers[extent.part] for extent in extents],
            [extent.low for extent in extents],
            [extent.high for extent in extents],
        )


def _position(row: Sequence[Any]) -> Position:
    topic, topic_id, partition, log_start, end, leader_epoch, last_offset, crc = row
    is_leader_epoch = NO_EPOCH <= leader_epoch <= MAX_EPOCH
    if not is_topic_name(topic) or not 0 <= partition < MAX_PARTITIONS or not is_leader_epoch:
        raise ValueError(f"{topic!r}/{partition} in epoch {leader_epoch}")
    return Position(
        partition_id=PartitionId(topic=topic, topic_id=topic_id, partition=partition),
        log_start=log_start,
        end=end,
        leader_epoch=leader_epoch,
        last_batch=None if last_offset == _NO_BATCH else LastBatch(last_offset=last_offset, crc=crc),
    )


def _extents(table: pa.Table, key: str, parts: Sequence[CatalogPart]) -> Iterator[list[RowRange]]:
    """The row ranges of each partition."""
    import pyarrow as pa

    lists = [table.column(name).combine_chunks() for name in _LISTS]
    counts, *other_counts = (column.value_lengths() for column in lists)
    if not all(counts.equals(other) for other in other_counts):
        raise damaged_catalog(f"{key}: its slices lack a part or a border")
    flat = zip(*(integers_of(pa.chunked_array([column.flatten()]), key) for column in lists), strict=True)
    for count in counts.to_pylist():
        yield [_extent(parts, *row) for row in islice(flat, count)]


def _extent(parts: Sequence[CatalogPart], number: int, low: int, high: int) -> RowRange:
    if not (0 <= number < len(parts) and 0 <= low < high <= len(parts[number])):
        raise ValueError(f"rows {low} to {high} of part {number}")
    return RowRange(parts[number], low, high)
