"""What retention let go of a partition: which offsets are held no more, and where a restore point begins behind them.

A restore point needs what its topics held then, `[log start, end)`. What no point needs goes in whole segments, so what
is left of a partition may be islands: the stretch of an old point that is kept, nothing, and the stretch of today. Each
point is served by one island: by what lies behind the last range that was let go below its end. Pure.
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


def joined(spans: Iterable[Span]) -> Spans:
    """The same offsets in as few spans as can be, rising."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)


def parted(spans: Iterable[Span], at: int) -> tuple[Spans, Spans]:
    """What of `spans`, which rise, lies below offset `at`, and from it on."""
    spans = tuple(spans)
    below = tuple((start, min(end, at)) for start, end in spans if start < at)
    return below, tuple((max(start, at), end) for start, end in spans if end > at)


def expire(found: SegmentList, expired: ExpiredRange) -> SegmentList:
    """`found` without the segments inside the range. Raises `DamagedCommit` where it ends within one."""
    inside = [each for each in found if each.start < expired.end and expired.start < each.end]
    for each in inside:
        if each.start < expired.start or expired.end < each.end:
            raise refuse(expired, f"{each.key} is of it and of what is left")
    return found.without({each.key for each in inside}) if inside else found


def without_expired(holes: Iterable[RecordedHole], spans: Mapping[PartitionId, Spans]) -> list[RecordedHole]:
    """`holes` without those that lie in what was let go of their partition, its `spans`."""
    return [hole for hole in holes if not _lies_in(hole, spans.get(hole.partition_id, ()))]


def _lies_in(hole: RecordedHole, spans: Spans) -> bool:
    return any(start <= hole.start and hole.end <= end for start, end in spans)


def spans_before(live: Spans, branches: Iterable[Branch]) -> Spans:
    """What was let go of a partition's history as it was before all of `branches` were cut off (see
    `segments_before`)."""
    for branch in sorted(branches, key=lambda each: each.number, reverse=True):
        live = (*parted(live, branch.at)[0], *branch.expired)
    return live


def beginning(spans: Sequence[Span], end: int) -> int:
    """Where what is held for a point that ends at `end` begins, as far as `spans` say."""
    return max((high for low, high in spans if low < end), default=0)


def refuse(expired: ExpiredRange, why: str) -> DamagedCommit:
    """The error of a commit that lets go what it cannot."""
    return damaged_commit(f"{expired.partition_id} [{expired.start}, {expired.end}) cannot have been let go: {why}")
