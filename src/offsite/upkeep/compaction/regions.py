"""The parts of a partition to compact together: regions of whole segments, the stretches inside, and parts for workers.

A *stretch* lies between two ends of kept restore points, and no kept point ends inside. Every point that reads some of
a stretch reads all of it, and needs only the last record of every key. A *region* is a run of whole segments, replaced
together; the ends of kept points cut a region into stretches. A *part* is some segments of a region, read by one worker
and written by one worker: a part may hold several stretches, and a stretch may lie in many parts. Pure. See decision
0023.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from offsite.log.range import LogRange, PartitionId, Span
from offsite.model.units import MIB
from offsite.repository.segments.segment import Segment

PART_BYTES = 128 * MIB
"""Approximate raw bytes of a part: one worker reads a part twice and writes it once."""
PART_RECORDS = 2_000_000
"""Approximate records of a part: the offsets of the records that stay are in memory at once."""
MAX_END = 1 << 62
"""Offsets travel doubled, beside a bit, in 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Segments of `partition` that follow one another without a break and are replaced together. `cuts`: ends of kept
    restore points strictly inside. `dirty_bytes`: raw bytes that no compaction has seen yet.

    `tombstones_below`: in the first stretch, tombstones below this offset are not needed any more: the backup holds
    nothing before the region, and the tombstones are older than consumers may be late. 0: all tombstones are needed.
    """

    partition: PartitionId
    segments: tuple[Segment, ...]
    cuts: tuple[int, ...] = ()
    dirty_bytes: int = 0
    tombstones_below: int = 0

    @property
    def start(self) -> int:
        return self.segments[0].start

    @property
    def end(self) -> int:
        return self.segments[-1].end

    @property
    def raw_bytes(self) -> int:
        return sum(segment.raw_bytes for segment in self.segments)

    @property
    def records(self) -> int:
        return sum(segment.records for segment in self.segments)

    @property
    def stretches(self) -> tuple[Span, ...]:
        return tuple(pairwise((self.start, *self.cuts, self.end)))


def find_regions(  # noqa: PLR0913  # what of the partition must stay as it is, each by its name
    partition: PartitionId,
    segments: Sequence[Segment],
    *,
    point_ends: Sequence[Span],
    above: int = 0,
    borders: Collection[int] = (),
    holes: Sequence[Span] = (),
    clean: Sequence[Span] = (),
) -> Iterator[Region]:
    """The regions of a partition's live segments, in order.

    `point_ends`: the ends of kept restore points, every run of points as a span from its first to its last end: data
    between the two is not touched. `above`: nothing below this offset is touched. `borders`: offsets that no segment
    may lie over; `clean`: the stretches already compacted.
    """
    dense = [(low, high) for low, high in point_ends if low < high]
    ends = sorted({end for span in point_ends for end in span})
    free = [
        s for s in segments if _is_free(s, above) and not any(s.start < high and low < s.end for low, high in dense)
    ]
    for run in _runs(free, borders, sorted(holes)):
        start, end = run[0].start, run[-1].end
        cuts = tuple(ends[bisect_right(ends, start) : bisect_left(ends, end)])
        region = Region(partition=partition, segments=tuple(run), cuts=cuts)
        yield Region(partition=partition, segments=tuple(run), cuts=cuts, dirty_bytes=_dirty_bytes(region, clean))


def _is_free(segment: Segment, above: int) -> bool:
    """Excludes segments that use only a part of their object or of a batch: another history, or another segment, has
    the rest."""
    whole = segment.whole is None and segment.start <= segment.first_offset and segment.last_offset < segment.end
    return whole and segment.start >= above and segment.end < MAX_END


def _runs(segments: Iterable[Segment], borders: Collection[int], holes: Sequence[Span]) -> Iterator[list[Segment]]:
    run: list[Segment] = []
    for segment in segments:
        if run and not _may_join(run[-1], segment, borders, holes):
            yield run
            run = []
        run.append(segment)
    if run:
        yield run


def _may_join(earlier: Segment, later: Segment, borders: Collection[int], holes: Sequence[Span]) -> bool:
    if earlier.end != later.start or earlier.end in borders:
        return False
    return not any(low < later.first_offset and earlier.last_offset < high for low, high in holes)


def _dirty_bytes(region: Region, clean: Sequence[Span]) -> int:
    """For every stretch, the bytes outside of the largest part compacted at once, approximately. A segment may reach
    over the ends of stretches after a compaction, and counts for every stretch by its offsets."""
    sums = list(accumulate((s.raw_bytes for s in region.segments), initial=0))
    starts = [s.start for s in region.segments]

    def below(offset: int) -> int:
        at = bisect_right(starts, offset) - 1
        if at < 0:
            return 0
        segment = region.segments[at]
        return sums[at] + segment.raw_bytes * (min(offset, segment.end) - segment.start) // (
            segment.end - segment.start
        )

    dirty = 0
    for start, end in region.stretches:
        pieces = ((max(low, start), min(high, end)) for low, high in clean if low < end and start < high)
        largest = max((below(high) - below(low) for low, high in pieces), default=0)
        dirty += below(end) - below(start) - largest
    return dirty


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Offsets `[start, end)` of a part. `number`: the stretch in the job that the offsets belong to. `end_offset`: the
    end of the stretch; records undecided at this offset stay unchanged. `tombstones_below`: see `Region`."""

    number: int
    start: int
    end: int
    end_offset: int
    tombstones_below: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPart:
    """Segments to compact, with the `stretches` of their offsets. Further segments with transactions: `later` in the
    region, where transactions of the part end, and `first`, of the first stretch, when tombstones may be removed.
    `region_parts`: the numbers, in the job, of the parts of the region, a half-open range."""

    partition: PartitionId
    segments: tuple[Segment, ...]
    stretches: tuple[Stretch, ...]
    later: tuple[Segment, ...]
    first: tuple[Segment, ...]
    region_parts: Span

    @property
    def log_range(self) -> LogRange:
        start, end = self.segments[0].start, self.segments[-1].end
        return LogRange(topic=self.partition.topic, partition=self.partition.partition, start=start, end=end)

    @property
    def raw_bytes(self) -> int:
        return sum(segment.raw_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """The part of every offset of a stretch: for every stretch, the starts of the parts of its region, and the number
    of the first part."""

    starts: tuple[tuple[int, ...], ...]
    firsts: tuple[int, ...]


def make_parts(regions: Sequence[Region], *, part_bytes: int = PART_BYTES) -> tuple[tuple[CompactionPart, ...], Routes]:
    """The parts of one job, in order, and the routes of the results."""
    parts: list[CompactionPart] = []
    starts: list[tuple[int, ...]] = []
    firsts: list[int] = []
    for region in regions:
        groups = list(_groups(region.segments, part_bytes))
        fellows = (len(parts), len(parts) + len(groups))
        parts += (_part(region, group, len(starts), fellows) for group in groups)
        starts += [tuple(group[0].start for group in groups)] * len(region.stretches)
        firsts += [fellows[0]] * len(region.stretches)
    return tuple(parts), Routes(starts=tuple(starts), firsts=tuple(firsts))


def _groups(segments: Sequence[Segment], part_bytes: int) -> Iterator[list[Segment]]:
    group: list[Segment] = []
    size_bytes = records = 0
    for segment in segments:
        full = size_bytes + segment.raw_bytes > part_bytes or records + segment.records > PART_RECORDS
        if group and full:
            yield group
            group, size_bytes, records = [], 0, 0
        group.append(segment)
        size_bytes, records = size_bytes + segment.raw_bytes, records + segment.records
    yield group


def _part(region: Region, group: Sequence[Segment], first_number: int, fellows: Span) -> CompactionPart:
    start, end = group[0].start, group[-1].end
    stretches = tuple(
        Stretch(
            number=number,
            start=max(low, start),
            end=min(high, end),
            end_offset=high,
            tombstones_below=min(region.tombstones_below, high) if low == region.start else 0,
        )
        for number, (low, high) in enumerate(region.stretches, first_number)
        if low < end and start < high
    )
    with_transactions = [segment for segment in region.segments if segment.has_transactions]
    first_end = stretches[0].end_offset if stretches[0].tombstones_below else 0
    return CompactionPart(
        partition=region.partition,
        segments=tuple(group),
        stretches=stretches,
        later=tuple(segment for segment in with_transactions if segment.start >= end),
        first=tuple(segment for segment in with_transactions if segment.start < first_end),
        region_parts=fellows,
    )
