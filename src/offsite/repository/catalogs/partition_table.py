"""The state of a backup as a table with one row per partition: position, and place of the segments.

The rest of the state is JSON in the table's metadata: topics, holes and the like. No part of the JSON grows with
partitions times time. pyarrow is imported on use.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from offsite.log.batch import LastBatch
from offsite.log.range import PartitionId, Span
from offsite.model.bounds import MAX_PARTITIONS
from offsite.model.errors import OffsiteError, check
from offsite.model.names import is_topic_name
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.catalogs.segment_table import CatalogPart, RecoverSegments, RowRange, StoredRows
from offsite.repository.commit import CompactedRange, ExpiredRange, Position, SnapshotRef, TopicShape
from offsite.repository.commit_json import (
    checkpoint_from_json,
    checkpoint_to_json,
    compacted_from_json,
    compacted_to_json,
    expired_from_json,
    expired_to_json,
    hole_from_json,
    hole_to_json,
    left_behind_from_json,
    left_behind_to_json,
    partition_from_json,
    partition_to_json,
    pin_from_json,
    pin_to_json,
    progress_from_json,
    progress_to_json,
    ref_from_json,
    ref_to_json,
    topic_from_json,
    topic_to_json,
)
from offsite.repository.json_form import (
    FORMAT,
    FORMAT_PACKS,
    FORMAT_RETENTION,
    NEWEST_FORMAT,
    encode_canonical,
    parse_part,
)
from offsite.repository.parquet import damaged_catalog, from_parquet, integers_of
from offsite.repository.partition_history import Branch, Spans, join_spans
from offsite.repository.segments.part import part_from_json, part_of, part_to_json
from offsite.repository.segments.segment import Segment, SegmentList, segment_from_json, segment_to_json
from offsite.repository.state import FIRST_SEQ, BackupState, CutSpan, LayeredMap

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

RangeT = TypeVar("RangeT")

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


def state_to_json(state: BackupState) -> dict[str, JsonValue]:
    """The fields of the state without a column."""
    fields: dict[str, JsonValue] = {
        "format": _format_of(state),
        "backup": state.backup,
        "seq": state.seq,
        "head_hash": state.head_hash,
        "committed_at_ms": state.committed_at_ms,
        "topics": [_topic_to_json(shape, state) for shape in state.topics.values()],
        "holes": [hole_to_json(hole) for hole in state.holes],
        "left_behind": [left_behind_to_json(partition) for partition in state.left_behind],
        **({"incomplete": True} if state.incomplete else {}),
        **({"progress": progress_to_json(state.progress)} if state.progress else {}),
        **({"completed_at_ms": state.completed_at_ms} if state.completed_at_ms != _usually_completed(state) else {}),
        "checkpoints": [checkpoint_to_json(checkpoint) for checkpoint in state.checkpoints],
        "groups": state.groups,
        "metadata": ref_to_json(state.metadata),
        **({"cut": ref_to_json(state.cut)} if state.cut else {}),
        **({"cuts": list(map(_cut_to_json, state.cuts))} if state.cuts else {}),
        **({"accounted": True} if state.accounted else {}),
    }
    more: dict[str, JsonValue] = {
        "branches": list(map(_branch_to_json, state.branches)),
        "expired": [expired_to_json(expired) for expired in _ranges(state.expired, ExpiredRange)],
        "compacted": [
            compacted_to_json(replace(compacted, until_ms=state.compacted_until.get(compacted.partition_id, -1)))
            for compacted in _ranges(state.compacted, CompactedRange)
        ],
        "pins": list(map(pin_to_json, state.pins)),
    }
    return fields | {name: part for name, part in more.items() if part}


def _topic_to_json(shape: TopicShape, state: BackupState) -> dict[str, JsonValue]:
    """Catalogs of earlier versions lack `configs_since`; readers then use the catalog's own commit."""
    return topic_to_json(shape) | {"configs_since": state.configs_since.get(shape.incarnation, state.seq)}


def _usually_completed(state: BackupState) -> int:
    """The default of `completed_at_ms`: the time of the newest commit; 0 for an incomplete run."""
    return 0 if state.incomplete else state.committed_at_ms


def _format_of(state: BackupState) -> int:
    if state.expired or state.compacted or state.pins or any(branch.expired for branch in state.branches):
        return FORMAT_RETENTION
    return FORMAT_PACKS if state.branches else FORMAT


def _ranges(spans_by_partition: Mapping[PartitionId, Spans], kind: Callable[..., RangeT]) -> Iterator[RangeT]:
    """`spans_by_partition` as ranges of that `kind`."""
    for partition, spans in spans_by_partition.items():
        for start, end in spans:
            yield kind(partition_id=partition, start=start, end=end)


def _spans(ranges: Iterable[ExpiredRange | CompactedRange]) -> Mapping[PartitionId, Spans]:
    grouped: dict[PartitionId, list[Span]] = {}
    for stretch in ranges:
        grouped.setdefault(stretch.partition_id, []).append((stretch.start, stretch.end))
    return {partition: join_spans(spans) for partition, spans in grouped.items()}


def _latest_times(compacted: Iterable[CompactedRange]) -> Mapping[PartitionId, int]:
    latest: dict[PartitionId, int] = {}
    for stretch in compacted:
        latest[stretch.partition_id] = max(stretch.until_ms, latest.get(stretch.partition_id, -1))
    return latest


def state_from_json(document: JsonObject) -> BackupState:
    """The state, without the fields in columns."""
    is_incomplete, seq = document.optional_flag("incomplete"), document.integer("seq")
    topics = [(topic_from_json(topic), topic.integer_or("configs_since", seq)) for topic in document.children("topics")]
    compacted = list(map(compacted_from_json, document.children("compacted")))
    completed_at_ms = document.integer_or(
        "completed_at_ms", 0 if is_incomplete else document.integer("committed_at_ms")
    )
    cut = ref_from_json(document.optional_child("cut"))
    return BackupState(
        backup=document.text("backup"),
        seq=seq,
        head_hash=document.text("head_hash"),
        committed_at_ms=document.integer("committed_at_ms"),
        topics=LayeredMap({shape.incarnation: shape for shape, _ in topics}),
        configs_since=LayeredMap({shape.incarnation: since for shape, since in topics}),
        holes=tuple(map(hole_from_json, document.children("holes"))),
        left_behind=tuple(map(left_behind_from_json, document.children("left_behind"))),
        incomplete=is_incomplete,
        progress=progress_from_json(document.optional_child("progress")),
        completed_at_ms=completed_at_ms,
        checkpoints=tuple(map(checkpoint_from_json, document.children("checkpoints"))),
        groups=document.optional_text("groups"),
        metadata=ref_from_json(document.optional_child("metadata")),
        cut=cut,
        cuts=tuple(map(_cut_from_json, document.children("cuts"))) or _lone_cut(cut, seq, completed_at_ms),
        branches=tuple(map(_branch_from_json, document.children("branches"))),
        expired=_spans(map(expired_from_json, document.children("expired"))),
        compacted=_spans(compacted),
        compacted_until=_latest_times(compacted),
        pins=tuple(map(pin_from_json, document.children("pins"))),
        accounted=document.optional_flag("accounted"),
    )


def _cut_to_json(cut: CutSpan) -> JsonValue:
    return {
        "first": cut.first,
        "last": cut.last,
        "completed_at_ms": cut.completed_at_ms,
        "key": cut.ref.key,
        "hash": cut.ref.hash,
    }


def _cut_from_json(document: JsonObject) -> CutSpan:
    first = document.integer("first", least=FIRST_SEQ)
    return CutSpan(
        first=first,
        last=document.integer("last", least=first),
        completed_at_ms=document.integer("completed_at_ms"),
        ref=SnapshotRef(key=document.text("key"), hash=document.text("hash")),
    )


def _lone_cut(cut: SnapshotRef | None, seq: int, completed_at_ms: int) -> tuple[CutSpan, ...]:
    """The cuts in a catalog of an earlier version: only the cut of its own commit."""
    return () if cut is None else (CutSpan(first=seq, last=seq, completed_at_ms=completed_at_ms, ref=cut),)


def _branch_to_json(branch: Branch) -> dict[str, JsonValue]:
    """Truncations are rare, so the segments of all branches are few."""
    return {
        **partition_to_json(branch.partition_id),
        "number": branch.number,
        "at": branch.at,
        "end": branch.end,
        "commit": branch.commit,
        "segments": [
            {**segment_to_json(segment.as_written), "part": part_to_json(part_of(segment))}
            for segment in branch.segments
        ],
        **({"expired": [list(span) for span in branch.expired]} if branch.expired else {}),
    }


def _branch_from_json(document: JsonObject) -> Branch:
    return Branch(
        partition_id=partition_from_json(document),
        number=document.count("number"),
        at=document.count("at"),
        end=document.count("end"),
        commit=document.count("commit"),
        segments=SegmentList(map(_closed_segment, document.children("segments"))),
        expired=join_spans((low, high) for low, high in document.integer_rows("expired", width=2))
        if "expired" in document.fields
        else (),
    )


def _closed_segment(document: JsonObject) -> Segment:
    segment, part = segment_from_json(document), part_from_json(document.optional_child("part"))
    return segment if part is None else part.of(segment)


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
    if not is_topic_name(topic) or not 0 <= partition < MAX_PARTITIONS:
        raise ValueError(f"{topic!r}/{partition}")
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
