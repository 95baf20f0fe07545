"""The tasks of a micro-batch of the stream. Pure: from the backup's state before its commits, and from these.

Rows of a partition are given once, by offset: a segment that holds nothing behind the partition's position (one written
anew by a later commit) is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from offsite.model.selections.selection import TopicSelection
from offsite.model.selections.topic_choices import PartitionSelection
from offsite.model.untrusted.names import PROTECTED_TOPICS
from offsite.repository.commit import PartitionId, StoredCommit
from offsite.repository.commit_log import listed_by
from offsite.repository.segment_origins import Origins
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState, fold, segment_partition
from offsite.table.row_filter import RowFilter
from offsite.table.scan_plan import ScanTask, partition_tasks, scans_of, with_commits


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTask:
    """Records of `earlier` segments whose transactions were ended by a commit marker in one of `new`.

    All are transactional segments of one partition, in order; `before` is the commit that listed the last of `earlier`
    or a later one. Markers from `partition_end` on do not count yet.
    """

    partition: PartitionId
    earlier: tuple[Segment, ...]
    new: tuple[Segment, ...]
    partition_end: int
    before: int


StreamTask = ScanTask | EndedTask


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSelection:
    topics: TopicSelection
    partitions: PartitionSelection
    read_committed: bool

    def partitions_of(self, state: BackupState, known: Iterable[PartitionId]) -> Iterator[PartitionId]:
        """The partitions out of `known` that are selected, sorted: of every incarnation of a topic."""
        names = set(self.topics.select({each.topic for each in state.topics}, internal=PROTECTED_TOPICS))
        for each in sorted(known):
            if each.topic in names and self.partitions.includes(each.topic, each.partition):
                yield each


def plan_micro_batch(
    base: BackupState, commits: Sequence[StoredCommit], selection: StreamSelection
) -> tuple[StreamTask, ...]:
    """Tasks for what `commits` add to `base`, partition by partition, in the order of offsets. Where a log was cut
    back, what comes behind the cut is new, though offsets of before come again."""
    tasks: list[StreamTask] = []
    for run in _between_cuts(commits):
        tasks += _plan_run(base.cut_back(run[0].commit.changes.cut_back), fold(base, run), run, selection)
        base = fold(base, run)
    return tuple(tasks)


def _between_cuts(commits: Sequence[StoredCommit]) -> Iterator[Sequence[StoredCommit]]:
    """`commits` in runs: only the first of each may say that a log was cut back."""
    starts = [n for n, stored in enumerate(commits) if n == 0 or stored.commit.changes.cut_back]
    for start, end in pairwise([*starts, len(commits)]):
        yield commits[start:end]


def _plan_run(
    base: BackupState, state: BackupState, commits: Sequence[StoredCommit], selection: StreamSelection
) -> Iterator[StreamTask]:
    added = _added(base, commits)
    listed = listed_by(commits, {segment.key for found in added.values() for segment in found})
    for partition in selection.partitions_of(state, added):
        end = state.positions[partition].end
        if selection.read_committed:
            yield from _ended(base, partition, added[partition], end)
        new = _new(base, partition, added[partition], end=end, read_committed=selection.read_committed)
        yield from with_commits(new, {key: Origins.of(commit) for key, commit in listed.items()})


def _added(base: BackupState, commits: Iterable[StoredCommit]) -> dict[PartitionId, list[Segment]]:
    """The segments that each partition grew by."""
    ends = {partition: position.end for partition, position in base.positions.items()}
    added: dict[PartitionId, list[Segment]] = {}
    for stored in commits:
        for segment in sorted(stored.commit.changes.segments, key=lambda each: each.start):
            partition = segment_partition(segment)
            if segment.end > ends.get(partition, 0):
                added.setdefault(partition, []).append(segment)
                ends[partition] = segment.end
    return added


def _new(
    base: BackupState, partition: PartitionId, segments: Sequence[Segment], *, end: int, read_committed: bool
) -> Iterator[ScanTask]:
    known = base.positions.get(partition)
    scans = scans_of(segments, start=known.end if known else 0, end=end)
    return partition_tasks(partition, segments, scans, end=end, rows=RowFilter(), read_committed=read_committed)


def _ended(base: BackupState, partition: PartitionId, segments: Sequence[Segment], end: int) -> Iterator[EndedTask]:
    new = tuple(segment for segment in segments if segment.has_transactions)
    earlier = tuple(segment for segment in base.segments.get(partition, ()) if segment.has_transactions)
    if new and earlier:
        yield EndedTask(partition=partition, earlier=earlier, new=new, partition_end=end, before=base.seq)
