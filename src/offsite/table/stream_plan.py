"""Plan the tasks of a micro-batch of the stream. Pure: from the state before its commits, the commits, and the newest
state.

A row of a partition is yielded once, by offset: a segment without rows behind the partition's position (rewritten by a
later commit) is left out. Commits bring a range of offsets. The range is read from the segments that hold it *now*,
because the segments listed by the commits may have been rolled up since, and collected (decision 0022). Where retention
has deleted rows meanwhile, the stream has fallen behind the backup, as a consumer of Kafka may.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from offsite.log.range import PartitionId, Span
from offsite.model.errors import NoSuchRestorePoint
from offsite.model.names import PROTECTED_TOPICS
from offsite.model.selection import TopicSelection
from offsite.model.topic_choices import PartitionSelection
from offsite.points.point_in_time import hole_starts
from offsite.repository.commit import StoredCommit
from offsite.repository.coverage import Origins, is_covered
from offsite.repository.fold import fold, with_cuts
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState, segment_partition
from offsite.table.scan_plan import RowFilter, ScanTask, partition_tasks, scans_of


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTask:
    """Records at offsets `[floor, start)` whose transactions were ended by a commit marker at `[start, end)`. No offset
    is missing between the two.

    `earlier`: the partition's transactional segments with offsets below `start`. `new`: the transactional segments with
    offsets from `start` on. Both are in order, and may share a segment. `before`: the commit that brought the last
    offset below `start`, or a later commit.
    """

    partition: PartitionId
    earlier: tuple[Segment, ...]
    new: tuple[Segment, ...]
    start: int
    end: int
    floor: int
    before: int


StreamTask = ScanTask | EndedTask


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSelection:
    topics: TopicSelection
    partitions: PartitionSelection
    read_committed: bool
    skips_lost: bool = False
    """Whether to skip rows deleted by retention; else such rows end the stream."""

    def partitions_of(self, state: BackupState, partitions: Iterable[PartitionId]) -> Iterator[PartitionId]:
        """Yield the selected ones of `partitions`, sorted: of every incarnation of a topic."""
        names = set(self.topics.select({topic.topic for topic in state.topics}, internal=PROTECTED_TOPICS))
        for partition in sorted(partitions):
            if partition.topic in names and self.partitions.includes(partition.topic, partition.partition):
                yield partition


def plan_micro_batch(
    base: BackupState, commits: Sequence[StoredCommit], selection: StreamSelection, *, head: BackupState
) -> tuple[StreamTask, ...]:
    """Return tasks for the additions of `commits` to `base`, partition by partition, in the order of offsets, read from
    the segments of `head`, the newest state. Where a log was cut back, everything behind the cut is new, though offsets
    repeat."""
    tasks: list[StreamTask] = []
    for run in _between_cuts(commits):
        before = with_cuts(base, run[0].commit.changes.cut_back)
        base = fold(base, run)
        tasks += _plan_run(before, base, run, selection, head)
    return tuple(tasks)


def _between_cuts(commits: Sequence[StoredCommit]) -> Iterator[Sequence[StoredCommit]]:
    """Yield `commits` in runs: only the first commit of a run may report a log cut back."""
    starts = [n for n, stored in enumerate(commits) if n == 0 or stored.commit.changes.cut_back]
    for start, end in pairwise([*starts, len(commits)]):
        yield commits[start:end]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growth:
    """Additions of commits to one partition, offsets `[start, end)`: the segments `listed` by the commits, in order,
    and the commits of the segments."""

    partition: PartitionId
    start: int
    end: int
    listed: tuple[Segment, ...]
    origins: Origins


def _plan_run(
    base: BackupState,
    state: BackupState,
    commits: Sequence[StoredCommit],
    selection: StreamSelection,
    head: BackupState,
) -> Iterator[StreamTask]:
    growths, all_starts = _growths(base, state, commits), hole_starts(state.holes)
    for partition in selection.partitions_of(state, growths):
        growth = growths[partition]
        stored = head.segments_at(state.seq, partition).read()
        let_go = head.expired_at(state.seq, partition)
        starts = all_starts.get(partition, ())
        if not selection.skips_lost:
            _check_held(growth, let_go)
        gone = (*let_go, *head.compacted.get(partition, ()))
        new = _holding(stored, growth.listed, (growth.start, growth.end), gone)
        if selection.read_committed:
            earlier = _holding(stored, base.segments.get(partition, ()), (0, growth.start), gone)
            yield from _ended(base, growth, earlier, new, starts)
        yield from _scans(growth, new, starts, read_committed=selection.read_committed)


def _growths(base: BackupState, state: BackupState, commits: Iterable[StoredCommit]) -> dict[PartitionId, _Growth]:
    """Return the growth of every partition."""
    ends = {partition: position.end for partition, position in base.positions.items()}
    added: dict[PartitionId, list[tuple[Segment, int]]] = {}
    for stored in commits:
        for segment in sorted(stored.commit.changes.segments, key=lambda segment: segment.start):
            partition = segment_partition(segment)
            if segment.end > ends.get(partition, 0):
                added.setdefault(partition, []).append((segment, stored.commit.seq))
                ends[partition] = segment.end
    return {partition: _growth(partition, segments, base, state) for partition, segments in added.items()}


def _growth(
    partition: PartitionId, added: Sequence[tuple[Segment, int]], base: BackupState, state: BackupState
) -> _Growth:
    position = base.positions.get(partition)
    return _Growth(
        partition=partition,
        start=position.end if position else 0,
        end=state.positions[partition].end,
        listed=tuple(segment for segment, _ in added),
        origins=Origins(tuple(segment.start for segment, _ in added), tuple(commit for _, commit in added)),
    )


def _check_held(growth: _Growth, let_go: Iterable[Span]) -> None:
    """Raise `NoSuchRestorePoint` where retention deleted a part of the growth."""
    for low, high in let_go:
        if any(segment.start < high and low < segment.end for segment in growth.listed):
            raise NoSuchRestorePoint(
                f"the stream has not read {growth.partition} [{max(low, growth.start)}, {min(high, growth.end)}), and "
                "retention has deleted this range",
                hint=(
                    "continue without these records: option failOnDataLoss=false; or start again with another "
                    "checkpoint"
                ),
            )


def _holding(
    stored: Iterable[Segment], listed: Sequence[Segment], span: Span, gone: Iterable[Span]
) -> tuple[Segment, ...]:
    """Return those of the `stored` segments, present now, with offsets of `span`. If they do not cover the `listed`
    segments, apart from offsets `gone` for good, return `listed`: the listed segments were removed and not replaced,
    and no collection deletes such segments."""
    low, high = span
    overlapping = tuple(segment for segment in stored if segment.end > low and segment.start < high)
    spans = [*gone, *((segment.start, max(segment.end, segment.last_offset + 1)) for segment in overlapping)]
    needed = ((max(segment.start, low), min(segment.end, high)) for segment in listed)
    return overlapping if all(is_covered(*part, spans) for part in needed) else tuple(listed)


def _scans(
    growth: _Growth, segments: Sequence[Segment], starts: tuple[int, ...], *, read_committed: bool
) -> Iterator[ScanTask]:
    tasks = partition_tasks(
        growth.partition,
        segments,
        scans_of(segments, start=growth.start, end=growth.end),
        end=growth.end,
        rows=RowFilter(),
        read_committed=read_committed,
        hole_starts=starts,
    )
    for task in tasks:
        yield replace(task, segments=tuple(replace(scan, origins=growth.origins) for scan in task.segments))


def _ended(
    base: BackupState,
    growth: _Growth,
    earlier: Iterable[Segment],
    new: Iterable[Segment],
    starts: Sequence[int],
) -> Iterator[EndedTask]:
    new_transactional = tuple(segment for segment in new if segment.has_transactions)
    earlier_transactional = tuple(segment for segment in earlier if segment.has_transactions)
    if new_transactional and earlier_transactional:
        yield EndedTask(
            partition=growth.partition,
            earlier=earlier_transactional,
            new=new_transactional,
            start=growth.start,
            end=min((start for start in starts if start >= growth.start), default=growth.end),
            floor=max((start for start in starts if start < growth.start), default=0),
            before=base.seq,
        )
