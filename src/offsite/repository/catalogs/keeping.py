"""All objects of a new catalog, in the order in which they are put. The seal comes last and makes the catalog valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from offsite.repository.catalogs.history_lines import encode_lines
from offsite.repository.catalogs.partition_table import encode_partitions
from offsite.repository.catalogs.parts_reader import PartsReader
from offsite.repository.catalogs.seal import CatalogSeal, HistoryRef, encode_seal
from offsite.repository.catalogs.segment_merge import MergedParts, merge
from offsite.repository.catalogs.segment_parts import CatalogPart, RowRange, StoredRows
from offsite.repository.commit import PartitionId
from offsite.repository.history import CommitHistory, HistoryChunk
from offsite.repository.layered_map import LayeredMapBuilder
from offsite.repository.layout import BackupLayout
from offsite.repository.part_ref import PartRef
from offsite.repository.segments.body import HASH_NAME, content_hash
from offsite.repository.segments.segment import SegmentList
from offsite.repository.state import BackupState

_NAME_DIGITS = 8


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
