"""The tasks of a micro-batch of the stream. Pure: from the state before its commits, from these, and the newest state.

Rows of a partition are given once, by offset: a segment that holds nothing behind the partition's position (one written
anew by a later commit) is left out. What commits brought is a range of offsets; it is read from the segments that hold
it *now*, because those that the commits listed may have been rolled up since, and collected (decision 0022). Where
retention has let go of some meanwhile, the stream has fallen behind what the backup holds, as a consumer of Kafka may.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from offsite.copy.chain import hole_starts
from offsite.log.range import Span
from offsite.model.errors import NoSuchRestorePoint
from offsite.model.selections.selection import TopicSelection
from offsite.model.selections.topic_choices import PartitionSelection
from offsite.model.untrusted.names import PROTECTED_TOPICS
from offsite.repository.commit import PartitionId, StoredCommit
from offsite.repository.coverage import is_covered
from offsite.repository.fold import fold, with_cuts
from offsite.repository.segment_origins import Origins
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState, segment_partition
from offsite.table.row_filter import RowFilter
from offsite.table.scan_plan import ScanTask, partition_tasks, scans_of


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTask:
    """Records at offsets `[floor, start)` whose transactions were ended by a commit marker at `[start, end)`: no offset
    is missing between the two.

    `earlier` are the transactional segments of the partition that hold offsets below `start`, `new` those that hold
    some from there on, both in order: one segment may be in both. `before` is the commit that brought the last offset
    below `start`, or a later one.
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
    """Whether rows that retention has let go are passed over; else they end the stream."""

    def partitions_of(self, state: BackupState, known: Iterable[PartitionId]) -> Iterator[PartitionId]:
        """The partitions out of `known` that are selected, sorted: of every incarnation of a topic."""
        names = set(self.topics.select({each.topic for each in state.topics}, internal=PROTECTED_TOPICS))
        for each in sorted(known):
            if each.topic in names and self.partitions.includes(each.topic, each.partition):
                yield each


def plan_micro_batch(
    base: BackupState, commits: Sequence[StoredCommit], selection: StreamSelection, *, head: BackupState
) -> tuple[StreamTask, ...]:
    """Tasks for what `commits` add to `base`, partition by partition, in the order of offsets, read from the segments
    of `head`, the newest state. Where a log was cut back, what comes behind the cut is new, though offsets of before
    come again."""
    tasks: list[StreamTask] = []
    for run in _between_cuts(commits):
        before = with_cuts(base, run[0].commit.changes.cut_back)
        base = fold(base, run)
        tasks += _plan_run(before, base, run, selection, head)
    return tuple(tasks)


def _between_cuts(commits: Sequence[StoredCommit]) -> Iterator[Sequence[StoredCommit]]:
    """`commits` in runs: only the first of each may say that a log was cut back."""
    starts = [n for n, stored in enumerate(commits) if n == 0 or stored.commit.changes.cut_back]
    for start, end in pairwise([*starts, len(commits)]):
        yield commits[start:end]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growth:
    """What commits brought of one partition, offsets `[start, end)`: the segments `listed` by them, in order, and the
    commits that did."""

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
        held = head.segments_at(state.seq, partition).read()
        let_go = head.let_go_at(state.seq, partition)
        starts = all_starts.get(partition, ())
        if not selection.skips_lost:
            _check_held(growth, let_go)
        gone = (*let_go, *head.compacted.get(partition, ()))
        new = _holding(held, growth.listed, (growth.start, growth.end), gone)
        if selection.read_committed:
            earlier = _holding(held, base.segments.get(partition, ()), (0, growth.start), gone)
            yield from _ended(base, growth, earlier, new, starts)
        yield from _scans(growth, new, starts, read_committed=selection.read_committed)


def _growths(base: BackupState, state: BackupState, commits: Iterable[StoredCommit]) -> dict[PartitionId, _Growth]:
    """What each partition grew by."""
    ends = {partition: position.end for partition, position in base.positions.items()}
    added: dict[PartitionId, list[tuple[Segment, int]]] = {}
    for stored in commits:
        for segment in sorted(stored.commit.changes.segments, key=lambda each: each.start):
            partition = segment_partition(segment)
            if segment.end > ends.get(partition, 0):
                added.setdefault(partition, []).append((segment, stored.commit.seq))
                ends[partition] = segment.end
    return {known: _growth(known, found, base, state) for known, found in added.items()}


def _growth(
    partition: PartitionId, added: Sequence[tuple[Segment, int]], base: BackupState, state: BackupState
) -> _Growth:
    known = base.positions.get(partition)
    return _Growth(
        partition=partition,
        start=known.end if known else 0,
        end=state.positions[partition].end,
        listed=tuple(segment for segment, _ in added),
        origins=Origins(tuple(segment.start for segment, _ in added), tuple(commit for _, commit in added)),
    )


def _check_held(growth: _Growth, let_go: Iterable[Span]) -> None:
    """Raises `NoSuchRestorePoint` where something of the growth was let go."""
    for low, high in let_go:
        if any(each.start < high and low < each.end for each in growth.listed):
            raise NoSuchRestorePoint(
                f"the stream has not read {growth.partition} [{max(low, growth.start)}, {min(high, growth.end)}), and "
                "retention has let it go",
                hint="go on without it: option failOnDataLoss=false; or begin anew with another checkpoint",
            )


def _holding(
    held: Iterable[Segment], listed: Sequence[Segment], span: Span, gone: Iterable[Span]
) -> tuple[Segment, ...]:
    """Those out of `held`, which are there now, with offsets of `span`. Where they do not hold what the segments of
    then, `listed`, did, apart from what is `gone` for good, because these were removed and not replaced, it is these:
    nothing collects such."""
    low, high = span
    found = tuple(each for each in held if each.end > low and each.start < high)
    spans = [*gone, *((each.start, max(each.end, each.last_offset + 1)) for each in found)]
    wanted = ((max(each.start, low), min(each.end, high)) for each in listed)
    return found if all(is_covered(*each, spans) for each in wanted) else tuple(listed)


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
    ended = tuple(segment for segment in new if segment.has_transactions)
    begun = tuple(segment for segment in earlier if segment.has_transactions)
    if ended and begun:
        yield EndedTask(
            partition=growth.partition,
            earlier=begun,
            new=ended,
            start=growth.start,
            end=min((each for each in starts if each >= growth.start), default=growth.end),
            floor=max((each for each in starts if each < growth.start), default=0),
            before=base.seq,
        )
