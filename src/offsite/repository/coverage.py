"""Does a commit account for every offset that it moves a position past? Pure: the one reckoning of writer and verify.

What accounts for offsets: a segment, from its first batch to the end of its last one; a hole; a proven gap. A segment's
range says nothing by itself: where no batch is, a gap has to say why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from offsite.log.range import LogRange
from offsite.repository.commit import Changes, PartitionId, Position
from offsite.repository.segment import Segment

Span = tuple[int, int]
"""Offsets `[start, end)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unaccounted:
    """Offsets that a commit passed over without saying what is there."""

    partition_id: PartitionId
    start: int
    end: int

    def __str__(self) -> str:
        where = self.partition_id
        return str(LogRange(topic=where.topic, partition=where.partition, start=self.start, end=self.end))


def segment_span(segment: Segment) -> Span:
    """What the batches of a segment account for."""
    return max(segment.start, segment.first_offset), segment.last_offset + 1


def frontier(start: int, spans: Iterable[Span]) -> int:
    """How far `spans` reach from `start` on without a break."""
    for low, high in sorted(spans):
        if low > start:
            break
        start = max(start, high)
    return start


def reached(position: Position, last: Segment | None) -> int:
    """How far a partition is accounted for. Positions of earlier versions may lie inside the last batch."""
    return position.end if last is None else max(position.end, last.last_offset + 1)


def unaccounted(changes: Changes, before: Mapping[PartitionId, int]) -> Iterator[Unaccounted]:
    """Where `changes` move positions over offsets that nothing in them accounts for. `before`: how far partitions were
    accounted for already (see `reached`); a new one starts at its log start."""
    spans = _spans(changes)
    for position in changes.positions:
        start = before.get(position.partition_id, position.log_start)
        for low, high in _breaks(start, position.end, spans.get(position.partition_id, [])):
            yield Unaccounted(partition_id=position.partition_id, start=low, end=high)


def _spans(changes: Changes) -> dict[PartitionId, list[Span]]:
    spans: dict[PartitionId, list[Span]] = {}
    for segment in changes.segments:
        known = PartitionId(topic=segment.topic, topic_id=segment.topic_id, partition=segment.partition)
        spans.setdefault(known, []).append(segment_span(segment))
    for hole in changes.holes:
        spans.setdefault(hole.partition_id, []).append((hole.start, hole.end))
    for gap in changes.gaps:
        spans.setdefault(gap.partition_id, []).append((gap.start, gap.end))
    return spans


def _breaks(start: int, end: int, spans: Iterable[Span]) -> Iterator[Span]:
    for low, high in sorted(spans):
        if low > start and start < end:
            yield start, min(low, end)
        start = max(start, high)
    if start < end:
        yield start, end
