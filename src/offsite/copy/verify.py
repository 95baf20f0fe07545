"""The check of one segment of a repository, read in full in a worker. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.errors import Damaged
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.spark.meter import counted
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFinding:
    """Result of the check of one segment. `problem` is empty when every byte, batch and count is as its commit says."""

    segment: Segment
    problem: str


def verify_segment(segment: Segment, *, store: Store) -> SegmentFinding:
    """Check hash, CRC32C of each batch, offsets, counts and the index. Raises only what the store raises."""
    reader = SegmentReader(store=store, segment=segment)
    try:
        reader.index()
        records = 0
        for chunk in counted(reader.chunks()):
            records += sum(header.record_count for header in chunk.batches if not header.is_control)
    except Damaged as error:
        return SegmentFinding(segment=segment, problem=error.message)
    if records != segment.records:
        return SegmentFinding(segment=segment, problem=f"holds {records} records, its commit says {segment.records}")
    return SegmentFinding(segment=segment, problem="")
