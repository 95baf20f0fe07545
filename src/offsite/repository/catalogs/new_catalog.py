"""All objects of a new catalog, in the order in which they are put. The seal comes last and makes the catalog valid.

`merge` decides which parts the catalog reuses, and writes all other segments into one new part. The new part takes the
new segments, the segments of the newest parts not much larger than all later parts together, and of every part with
more than half of its rows gone. So parts stay few, and a segment is written again only after the later parts have grown
to half of its part: a handful of times in years, not once per catalog.
"""

from __future__ import annotations

import io
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from offsite.log.range import PartitionId
from offsite.model.errors import check
from offsite.repository.catalogs.partition_table import encode_partitions
from offsite.repository.catalogs.seal import CatalogSeal, HistoryRef, PartsReader, encode_lines, encode_seal
from offsite.repository.catalogs.segment_table import (
    COUNTED,
    REPEATED,
    SORTED,
    CatalogPart,
    RowRange,
    StoredRows,
    schema_with,
    table_of,
)
from offsite.repository.commit_history import CommitHistory, HistoryChunk, PartRef
from offsite.repository.layout import BackupLayout
from offsite.repository.segments.body import HASH_NAME, content_hash
from offsite.repository.segments.segment import Segment, SegmentList
from offsite.repository.state import BackupState, LayeredMapBuilder

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


_ROWS_PER_GROUP = 8_192
MAX_PART_ROWS = 4_000_000
"""Parts are not merged beyond this size: a reader of a whole part of this size needs a gigabyte."""

_NAME_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenPartition:
    """The rows of one partition in the new part: `old` slices of parts that are not reused, then `fresh` segments. The
    slices in `reused` parts come before them."""

    partition_id: PartitionId
    reused: tuple[RowRange, ...]
    old: tuple[RowRange, ...]
    fresh: tuple[Segment, ...]

    @classmethod
    def of(cls, partition: PartitionId, segments: SegmentList, reused: frozenset[CatalogPart]) -> RewrittenPartition:
        stored = _extents(segments)
        is_reused = [extent.part in reused for extent in stored]
        check(is_reused == sorted(is_reused, reverse=True), f"the order of the parts of {partition}")
        return cls(
            partition_id=partition,
            reused=tuple(extent for extent in stored if extent.part in reused),
            old=tuple(extent for extent in stored if extent.part not in reused),
            fresh=segments.tail if stored or not segments.stored else tuple(segments),
        )

    def __len__(self) -> int:
        return sum(map(len, self.old)) + len(self.fresh)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedParts:
    """`reused` parts, and the object with all other segments: `rows` rows, in the order of the `rewritten` partitions.
    Empty without rewritten partitions."""

    reused: tuple[CatalogPart, ...]
    rewritten: tuple[RewrittenPartition, ...]
    rows: int
    data: bytes


def merge(segments: Mapping[PartitionId, SegmentList]) -> MergedParts:
    """The parts for a catalog of `segments`. Raises `DamagedObject`."""
    # 1. Count the rows still live in each part, and the segments in no part.
    live = Counter[CatalogPart]()
    fresh = 0
    for segment_list in segments.values():
        fresh += len(segment_list)
        for extent in _extents(segment_list):
            live[extent.part] += len(extent)
    fresh -= live.total()
    # 2. Choose the parts to reuse: the first ones, up to the first that is due for a merge.
    parts = sorted(live, key=lambda part: part.ref.key if part.ref is not None else "")
    reused = frozenset(parts[: _kept(parts, live, fresh)])
    # 3. Rewrite the partitions with any segment outside of the reused parts.
    changed = sorted(partition for partition, segment_list in segments.items() if not _is_kept(segment_list, reused))
    rewritten = tuple(RewrittenPartition.of(partition, segments[partition], reused) for partition in changed)
    return MergedParts(
        reused=tuple(part for part in parts if part in reused),
        rewritten=rewritten,
        rows=sum(map(len, rewritten)),
        data=_encoded(rewritten) if rewritten else b"",
    )


def _is_kept(segments: SegmentList, reused: frozenset[CatalogPart]) -> bool:
    """Whether all segments lie in reused parts."""
    stored = segments.stored
    in_parts = isinstance(stored, StoredRows) and all(extent.part in reused for extent in stored.extents)
    return in_parts and stored is not None and len(stored) == len(segments)


def _kept(parts: Sequence[CatalogPart], live: Mapping[CatalogPart, int], fresh: int) -> int:
    """How many of the first parts are reused."""
    for number, part in enumerate(parts):
        behind = fresh + sum(live[later_part] for later_part in parts[number + 1 :])
        is_near = live[part] <= 2 * behind and live[part] + behind <= MAX_PART_ROWS
        if part.ref is None or is_near or 2 * live[part] < len(part):
            return number
    return len(parts)


def _extents(segments: SegmentList) -> tuple[RowRange, ...]:
    return segments.stored.extents if isinstance(segments.stored, StoredRows) else ()


def _encoded(lists: Sequence[RewrittenPartition]) -> bytes:
    """Written in batches, because the parts may exceed the memory."""
    from pyarrow import parquet

    written = schema_with(packs=any(map(_may_be_packed, lists)), parts=any(map(_may_be_parted, lists)))
    names = set(written.names)
    encodings = dict.fromkeys(SORTED, "DELTA_BYTE_ARRAY") | dict.fromkeys(COUNTED, "DELTA_BINARY_PACKED")
    sink = io.BytesIO()
    with parquet.ParquetWriter(
        sink,
        written,
        compression="zstd",
        use_dictionary=[name for name in REPEATED if name in names],
        column_encoding={name: encoding for name, encoding in encodings.items() if name in names},
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        for batch in _batches(lists):
            writer.write_table(_gathered(batch).select(written.names), row_group_size=_ROWS_PER_GROUP)
    return sink.getvalue()


def _may_be_packed(partition: RewrittenPartition) -> bool:
    return any(segment.pack is not None for segment in partition.fresh) or any(
        extent.part.has("pack") for extent in partition.old
    )


def _may_be_parted(partition: RewrittenPartition) -> bool:
    return any(segment.whole is not None for segment in partition.fresh) or any(
        extent.part.has("whole") for extent in partition.old
    )


def _batches(lists: Sequence[RewrittenPartition]) -> Iterator[Sequence[RewrittenPartition]]:
    """Partitions in order, in batches with about as many rows as a row group."""
    batch: list[RewrittenPartition] = []
    rows = 0
    for partition in lists:
        batch.append(partition)
        rows += len(partition)
        if rows >= _ROWS_PER_GROUP:
            yield batch
            batch, rows = [], 0
    if rows:
        yield batch


def _gathered(batch: Sequence[RewrittenPartition]) -> pa.Table:
    """The rows of a batch, partition by partition. Reads one stretch of each part, from the first slice to the last:
    parts have the same order of partitions."""
    import pyarrow as pa

    stretches: dict[CatalogPart, tuple[int, int]] = {}
    for extent in chain.from_iterable(partition.old for partition in batch):
        low, high = stretches.get(extent.part, (extent.low, extent.high))
        stretches[extent.part] = min(low, extent.low), max(high, extent.high)
    begins: dict[CatalogPart, int] = {}
    rows = 0
    for part, (low, high) in stretches.items():
        begins[part] = rows - low
        rows += high - low
    fresh = table_of(tuple(chain.from_iterable(partition.fresh for partition in batch)))
    indices = array("q")
    for partition in batch:
        for extent in partition.old:
            indices.extend(range(begins[extent.part] + extent.low, begins[extent.part] + extent.high))
        indices.extend(range(rows, rows + len(partition.fresh)))
        rows += len(partition.fresh)
    tables = [part.rows(low, high) for part, (low, high) in stretches.items()]
    return pa.concat_tables([*tables, fresh]).take(pa.array(memoryview(indices), type=pa.int64()))


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogObjects:
    """Keys and bytes of the `objects`, the seal last, and the `state`, which refers to the objects."""

    objects: Sequence[tuple[str, bytes]]
    state: BackupState

    @classmethod
    def of(cls, state: BackupState, reader: PartsReader) -> CatalogObjects:
        """The catalog of `state`. Raises `DamagedObject` if a part that must be merged is unreadable."""
        layout, objects = reader.log.layout, dict[str, bytes]()
        merged = merge(state.segments)
        parts = list(merged.reused)
        if merged.rewritten:
            parts.append(reader.part(_put(objects, merged.data, merged.rows, state.seq, layout)))
        history = tuple(_history_ref(chunk, objects, state.seq, layout) for chunk in state.history.chunks)
        stored = replace(
            state,
            segments=_moved(state.segments, merged, parts[-1], reader) if merged.rewritten else state.segments,
            history=CommitHistory(state.history.tail, chunks=_chunks(state.history, history, reader)),
        )
        partitions, tail = encode_partitions(stored, parts), encode_lines(state.history.tail)
        seal = CatalogSeal(
            partitions=content_hash(partitions),
            tail=content_hash(tail),
            segments=tuple(part.ref for part in parts if part.ref is not None),
            history=history,
        )
        objects |= {layout.history_key(state.seq): tail, layout.catalog_key(state.seq): partitions}
        objects[layout.seal_key(state.seq)] = encode_seal(seal)
        return cls(objects=tuple(objects.items()), state=stored)

    @property
    def seal(self) -> bytes:
        return self.objects[-1][1]


def _put(objects: dict[str, bytes], data: bytes, rows: int, seq: int, layout: BackupLayout) -> PartRef:
    digest = content_hash(data)
    key = layout.part_key(seq, digest.removeprefix(f"{HASH_NAME}:")[:_NAME_DIGITS])
    objects[key] = data
    return PartRef(key=key, hash=digest, rows=rows)


def _history_ref(chunk: HistoryChunk, objects: dict[str, bytes], seq: int, layout: BackupLayout) -> HistoryRef:
    ref = chunk.ref or _put(objects, encode_lines(chunk.columns), chunk.lines, seq, layout)
    return HistoryRef(ref=ref, first=chunk.first, last=chunk.last)


def _chunks(history: CommitHistory, named: Sequence[HistoryRef], reader: PartsReader) -> Sequence[HistoryChunk]:
    """The chunks, readable from their objects: a chunk held only in memory becomes a stored chunk."""
    pairs = zip(history.chunks, named, strict=True)
    return [chunk if chunk.ref is not None else reader.chunk(ref) for chunk, ref in pairs]


def _moved(
    segments: Mapping[PartitionId, SegmentList], merged: MergedParts, part: CatalogPart, reader: PartsReader
) -> Mapping[PartitionId, SegmentList]:
    """`segments`, with the rewritten partitions referring to the new part."""
    building = LayeredMapBuilder(segments)
    low = 0
    for partition in merged.rewritten:
        extents = (*partition.reused, RowRange(part, low, low + len(partition)))
        end = segments[partition.partition_id].end
        building[partition.partition_id] = SegmentList(
            stored=StoredRows(extents, end=end, recover=reader.recovery(partition.partition_id))
        )
        low += len(partition)
    return building.build()
