"""Checks segments of a repository, read in full in workers. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offsite.engine.meter import count_items
from offsite.model.errors import Damaged
from offsite.model.names import named
from offsite.model.units import MIB
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.stores.store import Store

SHARE_BYTES_MAX = 96 * MIB
SHARE_SEGMENTS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFinding:
    """Result of the check of one segment. `problem` is empty when every byte, batch and count matches the commit."""

    segment: Segment
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentShare:
    """Segments of one worker, checked in order."""

    segments: tuple[Segment, ...]

    @property
    def title(self) -> str:
        return named([segment.key for segment in self.segments], most=1, of="segments")


def make_shares(segments: Sequence[Segment], *, slots: int) -> list[SegmentShare]:
    """All `segments` in their order, small neighbours together: a task costs as much as reading some MiB. `slots`:
    number of shares read at once."""
    total_bytes = sum(segment.raw_bytes for segment in segments)
    enough_bytes = min(SHARE_BYTES_MAX, -(-total_bytes // slots))
    enough = min(SHARE_SEGMENTS_MAX, -(-len(segments) // slots))
    shares: list[SegmentShare] = []
    pending: list[Segment] = []
    for segment in segments:
        pending.append(segment)
        if len(pending) >= enough or sum(member.raw_bytes for member in pending) >= enough_bytes:
            shares.append(SegmentShare(segments=tuple(pending)))
            pending = []
    return [*shares, SegmentShare(segments=tuple(pending))] if pending else shares


def verify_share(share: SegmentShare, *, store: Store) -> tuple[SegmentFinding, ...]:
    """One finding per segment. Raises only the errors of the store."""
    return tuple(verify_segment(segment, store=store) for segment in share.segments)


def verify_segment(segment: Segment, *, store: Store) -> SegmentFinding:
    """Check hash, CRC32C of every batch, offsets, counts and the index. Raises only the errors of the store."""
    reader = SegmentReader(store=store, segment=segment)
    try:
        reader.index()
        records = 0
        for chunk in count_items(reader.chunks()):
            records += sum(header.record_count for header in chunk.batches if not header.is_control)
    except Damaged as error:
        return SegmentFinding(segment=segment, problem=error.message)
    if records != segment.records:
        return SegmentFinding(segment=segment, problem=f"has {records} records, but its commit says {segment.records}")
    return SegmentFinding(segment=segment, problem="")
