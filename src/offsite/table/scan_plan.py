"""Plan the segments of a scan, cut into tasks. Pure: a restore point and a filter in, frozen tasks out.

A filter holds the wanted rows as bounds by which segments and frames can be left out; a reader must check every record
anyway, because a frame holds unwanted records too. Segments are left out by their commit's description: topic,
partition, offsets, and the latest time. The earliest time is known only where the broker dated the records, because a
producer's times may fall inside a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from offsite.log.range import PartitionId
from offsite.log.records.record import LOG_APPEND_TIME
from offsite.model.bounds import MAX_OFFSET
from offsite.model.journal import warned
from offsite.model.units import MIB
from offsite.points.point_in_time import SelectedChains
from offsite.repository.commit import RecordedHole
from offsite.repository.coverage import Origins
from offsite.repository.segments.segment import Segment

TASK_BYTES = 64 * MIB
"""Bytes that a task reads, as Kafka had them: small enough for an even share, large enough to pay for a task's
start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Bounds of wanted rows: topics and partitions (None: all), offsets `[start, end)`, and times from `since_ms` to
    `until_ms`, both included (None: no bound)."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start: int = 0
    end: int = MAX_OFFSET
    since_ms: int | None = None
    until_ms: int | None = None

    def of_topics(self, names: frozenset[str]) -> RowFilter:
        return replace(self, topics=names if self.topics is None else self.topics & names)

    def of_partitions(self, numbers: frozenset[int]) -> RowFilter:
        return replace(self, partitions=numbers if self.partitions is None else self.partitions & numbers)

    def from_offset(self, start: int) -> RowFilter:
        return replace(self, start=max(self.start, start))

    def below_offset(self, end: int) -> RowFilter:
        return replace(self, end=min(self.end, end))

    def since(self, time_ms: int) -> RowFilter:
        return replace(self, since_ms=time_ms if self.since_ms is None else max(self.since_ms, time_ms))

    def until(self, time_ms: int) -> RowFilter:
        return replace(self, until_ms=time_ms if self.until_ms is None else min(self.until_ms, time_ms))

    def wants(self, topic: str, partition: int) -> bool:
        """Whether the partition can hold a wanted row."""
        in_topics = self.topics is None or topic in self.topics
        return in_topics and (self.partitions is None or partition in self.partitions)

    def includes(self, offset: int, time_ms: int) -> bool:
        """Whether a record of a wanted partition is a wanted row."""
        since = self.since_ms is None or time_ms >= self.since_ms
        until = self.until_ms is None or time_ms <= self.until_ms
        return self.start <= offset < self.end and since and until


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentScan:
    """The records of `segment` at offsets `[start, end)`. `origins`: the commits that brought the records; None: not
    requested."""

    segment: Segment
    start: int
    end: int
    origins: Origins | None = None

    def commit_of(self, offset: int) -> int | None:
        """Return the commit that brought the batch at `offset`."""
        return None if self.origins is None else self.origins.at(offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """Segments of one partition, to read in order.

    `read_committed`: read as a consumer of this isolation level reads the partition with end `partition_end`.
    `deciding`: the transactional segments from the task's first segment on. `hole_starts`: offsets at which holes of
    the partition begin. `rows`: the wanted rows. `point_until_ms`: the restore point has no later record.
    """

    partition: PartitionId
    segments: tuple[SegmentScan, ...]
    partition_end: int
    read_committed: bool
    rows: RowFilter
    deciding: tuple[Segment, ...] = ()
    hole_starts: tuple[int, ...] = ()
    point_until_ms: int | None = None

    @property
    def raw_bytes(self) -> int:
        return sum(scan.segment.raw_bytes for scan in self.segments)


def plan_scan(
    selected: SelectedChains,
    rows: RowFilter,
    *,
    read_committed: bool,
    task_bytes: int = TASK_BYTES,
) -> tuple[ScanTask, ...]:
    """Return the tasks of a selection, in the order of topics, partitions and offsets. Holes among wanted rows go into
    the journal: a table has no further place for them."""
    for hole in selected.holes:
        _warn_of_hole(hole, rows)
    tasks: list[ScanTask] = []
    for chain in selected.chains:
        if rows.wants(chain.source.topic, chain.source.partition):
            chain_tasks = partition_tasks(
                chain.source,
                chain.segments,
                scans_of(chain.segments, end=chain.end),
                end=chain.end,
                rows=rows,
                read_committed=read_committed,
                hole_starts=chain.hole_starts,
                task_bytes=task_bytes,
            )
            tasks += (replace(task, point_until_ms=chain.until_ms) for task in chain_tasks)
    return tuple(tasks)


def _warn_of_hole(hole: RecordedHole, rows: RowFilter) -> None:
    partition = hole.partition_id
    if rows.wants(partition.topic, partition.partition) and rows.start < hole.end and hole.start < rows.end:
        warned(
            "hole",
            why=hole.reason,
            topic=partition.topic,
            partition=partition.partition,
            start=hole.start,
            end=hole.end,
        )


def with_commits(tasks: Iterable[ScanTask], origins: Mapping[str, Origins]) -> tuple[ScanTask, ...]:
    """Return the tasks, with the commits that brought every segment, by key."""
    return tuple(
        replace(task, segments=tuple(replace(scan, origins=origins.get(scan.segment.key)) for scan in task.segments))
        for task in tasks
    )


def scans_of(segments: Sequence[Segment], *, start: int = 0, end: int) -> Iterator[SegmentScan]:
    """Yield what every consecutive segment of one partition adds to the earlier segments, of offsets `[start, end)`:
    the last batch of a segment may reach into the range of the next."""
    taken_to = start
    for segment in segments:
        first = max(segment.start, taken_to)
        taken_to = max(taken_to, segment.last_offset + 1)
        if first < min(end, taken_to):
            yield SegmentScan(segment=segment, start=first, end=min(end, taken_to))


def partition_tasks(  # noqa: PLR0913  # the scans, and the way to read them
    partition: PartitionId,
    segments: Sequence[Segment],
    scans: Iterable[SegmentScan],
    *,
    end: int,
    rows: RowFilter,
    read_committed: bool,
    hole_starts: tuple[int, ...] = (),
    task_bytes: int = TASK_BYTES,
) -> Iterator[ScanTask]:
    """Yield tasks for `scans`. `segments`: all segments of the partition, including the scanned ones. The partition
    ends at `end` and lacks offsets from `hole_starts` on (rising)."""
    numbers = {(segment.key, segment.start): number for number, segment in enumerate(segments)}  # parts share a key
    for group in _groups((scan for scan in scans if _may_hold(scan, rows)), task_bytes):
        following = segments[numbers[group[0].segment.key, group[0].segment.start] :]
        transactional = read_committed and any(scan.segment.has_transactions for scan in group)
        yield ScanTask(
            partition=partition,
            segments=tuple(group),
            partition_end=end,
            read_committed=read_committed,
            rows=rows,
            deciding=tuple(s for s in following if s.has_transactions) if transactional else (),
            hole_starts=hole_starts if transactional else (),
        )


def _may_hold(scan: SegmentScan, rows: RowFilter) -> bool:
    if scan.end <= rows.start or scan.start >= rows.end:
        return False
    segment = scan.segment
    if rows.since_ms is not None and segment.timestamp_max_ms < rows.since_ms:
        return False
    by_broker = segment.timestamp_types == (LOG_APPEND_TIME,)
    return not (by_broker and rows.until_ms is not None and segment.base_timestamp_min_ms > rows.until_ms)


def _groups(scans: Iterable[SegmentScan], task_bytes: int) -> Iterator[list[SegmentScan]]:
    group: list[SegmentScan] = []
    size = 0
    for scan in scans:
        if group and size + scan.segment.raw_bytes > task_bytes:
            yield group
            group, size = [], 0
        group.append(scan)
        size += scan.segment.raw_bytes
    if group:
        yield group
