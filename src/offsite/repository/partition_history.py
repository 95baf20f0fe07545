"""The histories of a partition: branches of logs that were cut back, and ranges that retention expired. Pure.

After an unclean leader election a log differs from some offset on. The old history from that offset is closed as a
branch, and the new history continues in its place; below the offset both share the segments. A restore point from
before the cut is served by the branch, through all later cuts, newest first (decision 0020). A restore point needs the
offsets its topics held at the time, `[log start, end)`. Retention removes whole segments, so the rest of a partition
may be islands: the kept stretch of an old point, nothing, and the stretch of today. One island serves each point: the
data after the last expired range below the point's end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from offsite.log.range import PartitionId, Span
from offsite.model.errors import DamagedCommit
from offsite.model.untrusted.json_codec import Count, Form, Spare
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.commit import CutBack, ExpiredRange, InlinePartition, RecordedHole, damaged_commit
from offsite.repository.segments.part import SegmentPart, part_of, read_part, write_part
from offsite.repository.segments.segment import Segment, SegmentList, segment_from_json, segment_to_json


def _read_closed(document: JsonObject) -> Segment:
    segment = segment_from_json(document)
    return segment if document.fields.get("part") is None else read_part(document.child("part")).of(segment)


def _write_closed(segment: Segment) -> dict[str, JsonValue]:
    part = part_of(segment)
    return {**segment_to_json(segment.as_written), "part": None if part is None else write_part(part)}


_CLOSED_SEGMENTS = Form(
    lambda document, name: SegmentList(map(_read_closed, document.children(name))),
    lambda segments: list(map(_write_closed, segments)),
)
_SPANS = Form(
    lambda document, name: join_spans((low, high) for low, high in document.integer_rows(name, width=2)),
    lambda spans: list(map(list, spans)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A closed history of a partition: the data backed up for `[at, end)` before commit `commit` found that the
    source's log differs from `at` on. `number` counts the branches of the partition from 1. `expired`: spans that
    retention removed from the branch."""

    partition_id: InlinePartition
    number: Count
    at: Count
    end: Count
    commit: Count
    segments: Annotated[SegmentList, _CLOSED_SEGMENTS]
    expired: Annotated[Spare[tuple[Span, ...]], _SPANS] = ()

    @property
    def last_commit(self) -> int:
        """The newest restore point of this history."""
        return self.commit - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSegments:
    """The segments of a partition on both sides of a cut: `live` of the continuing history, `closed` of the old
    history."""

    live: SegmentList
    closed: SegmentList


def cut_segments(segments: Iterable[Segment], cut: CutBack) -> SplitSegments:
    """The segments of the partition, split at the cut. Raises `DamagedCommit` if the cut does not fit the segments."""
    live: list[Segment] = []
    closed: list[Segment] = []
    parted = False
    for segment in segments:
        if segment.start >= cut.at:
            closed.append(segment)
        elif segment.end <= cut.at:
            live.append(segment)
        else:
            parted = True
            live += _part(segment, cut.below, cut)
            closed += _part(segment, cut.above, cut)
    if not parted and (cut.below or cut.above):
        raise _unfit(cut, "it splits a segment, but no segment reaches over that offset")
    if live and live[-1].last_offset >= cut.at:
        raise _unfit(cut, f"a batch of {live[-1].key} reaches over that offset")
    return SplitSegments(live=SegmentList(live), closed=SegmentList(closed))


def _part(segment: Segment, part: SegmentPart | None, cut: CutBack) -> Iterator[Segment]:
    if cut.below is None and cut.above is None:
        raise _unfit(cut, f"it does not say what remains of {segment.key}")
    if part is None:
        return
    if part.key != segment.key or not segment.start <= part.start < part.end <= segment.end:
        raise _unfit(cut, f"it splits {part.key} instead of {segment.key}")
    yield part.of(segment)


def _unfit(cut: CutBack, why: str) -> Exception:
    return damaged_commit(f"the log of {cut.partition_id} cannot have been cut back to {cut.at}: {why}")


def cut_holes(holes: Iterable[RecordedHole], cut: CutBack) -> list[RecordedHole]:
    """The holes of the continuing history. Holes above the cut belong to the old history."""
    return [hole for hole in holes if hole.partition_id != cut.partition_id or hole.end <= cut.at] + [
        RecordedHole(partition_id=hole.partition_id, start=hole.start, end=cut.at, reason=hole.reason)
        for hole in holes
        if hole.partition_id == cut.partition_id and hole.start < cut.at < hole.end
    ]


def borders(branches: Iterable[Branch]) -> frozenset[int]:
    """The offsets of one partition that no live segment may span: below them the segments are shared with older
    histories. If a later cut has a lower or equal offset, an earlier cut is no border: the live data there is newer
    than both cuts."""
    offsets: set[int] = set()
    for branch in sorted(branches, key=lambda closed: closed.number, reverse=True):
        if not offsets or branch.at < min(offsets):
            offsets.add(branch.at)
    return frozenset(offsets)


def segments_before(live: SegmentList, branches: Iterable[Branch]) -> SegmentList:
    """The segments of a partition before all of `branches` were cut off; `live` are the segments of today."""
    segments = live
    for branch in sorted(branches, key=lambda closed: closed.number, reverse=True):
        below = (segment for segment in segments if segment.start < branch.at)
        segments = SegmentList((*below, *branch.segments))
    return segments


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
