"""Expired offsets of a partition, and where a restore point's data begins after them.

A restore point needs the offsets its topics held at the time, `[log start, end)`. Retention removes data in whole
segments, so the rest of a partition may be islands: the kept stretch of an old point, nothing, and the stretch of
today. One island serves each point: the data after the last expired range below the point's end. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from offsite.log.range import Span
from offsite.model.errors import DamagedCommit
from offsite.repository.branches import Branch
from offsite.repository.commit import ExpiredRange, PartitionId, RecordedHole
from offsite.repository.commit_json import damaged_commit
from offsite.repository.segments.segment import SegmentList

Spans = tuple[Span, ...]


def join_spans(spans: Iterable[Span]) -> Spans:
    """The same offsets in the smallest number of spans, rising."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def split_spans(spans: Iterable[Span], at: int) -> tuple[Spans, Spans]:
    """The part of `spans` (rising) below offset `at`, and the part from `at` on."""
    spans = tuple(spans)
    below = tuple((start, min(end, at)) for start, end in spans if start < at)
    return below, tuple((max(start, at), end) for start, end in spans if end > at)


def expire(segments: SegmentList, expired: ExpiredRange) -> SegmentList:
    """`segments` without those inside the expired range. Raises `DamagedCommit` if the range ends within a segment."""
    inside = [segment for segment in segments if segment.start < expired.end and expired.start < segment.end]
    for segment in inside:
        if segment.start < expired.start or expired.end < segment.end:
            raise impossible_expiry(expired, f"{segment.key} belongs to the deleted range and to the remaining range")
    return segments.without({segment.key for segment in inside}) if inside else segments


def drop_expired_holes(holes: Iterable[RecordedHole], spans: Mapping[PartitionId, Spans]) -> list[RecordedHole]:
    """`holes` without those inside expired `spans` of their partition."""
    return [hole for hole in holes if not _lies_in(hole, spans.get(hole.partition_id, ()))]


def _lies_in(hole: RecordedHole, spans: Spans) -> bool:
    return any(start <= hole.start and hole.end <= end for start, end in spans)


def spans_before(live: Spans, branches: Iterable[Branch]) -> Spans:
    """The expired spans of a partition's history before all of `branches` were cut off (see `segments_before`)."""
    for branch in sorted(branches, key=lambda closed: closed.number, reverse=True):
        live = (*split_spans(live, branch.at)[0], *branch.expired)
    return live


def held_start(spans: Sequence[Span], end: int) -> int:
    """The first offset held for a point that ends at `end`, according to the expired `spans`."""
    return max((high for low, high in spans if low < end), default=0)


def impossible_expiry(expired: ExpiredRange, why: str) -> DamagedCommit:
    """The error for a commit with an impossible expiry."""
    return damaged_commit(f"{expired.partition_id} [{expired.start}, {expired.end}) cannot have been deleted: {why}")
