"""The needs of restore points: offsets of each partition, in the history known to each point. Pure.

A point needs `[log start, end)` of a live partition, as stated in its commit. A run of points kept without a break
needs the union: from the log start of the first point to the end of the last, because both only rise as long as the log
is not truncated. A truncation splits the run: the needs before belong to the closed history. So the states at the ends
and at the cuts describe a run of millions of points.

A partition is live as of a point if its topic is the latest of its name and not known to be deleted. A partition
created within the run is needed as a whole. The same holds for a partition moved within the run, but not live at the
run's beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from offsite.log.range import Span
from offsite.repository.commit import PartitionId
from offsite.repository.partition_history import Branch, segments_before
from offsite.repository.segments.segment import SegmentList
from offsite.repository.state import BackupState


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PartitionHistory:
    """A history of a partition: the one in force after `cuts` truncations of its log."""

    partition_id: PartitionId
    cuts: int


Needs = dict[PartitionHistory, list[Span]]
"""The needed offsets of each history: spans in any order, possibly overlapping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branches:
    """The branches of the newest state, by partition, in the order of the cuts."""

    by_partition: Mapping[PartitionId, tuple[Branch, ...]]

    @classmethod
    def of(cls, head: BackupState) -> Branches:
        grouped: dict[PartitionId, list[Branch]] = {}
        for branch in sorted(head.branches, key=lambda closed: closed.number):
            grouped.setdefault(branch.partition_id, []).append(branch)
        return cls(by_partition={partition: tuple(branches) for partition, branches in grouped.items()})

    def history_at(self, partition_id: PartitionId, seq: int) -> PartitionHistory:
        """The history known to commit `seq`."""
        cuts = sum(branch.commit <= seq for branch in self.by_partition.get(partition_id, ()))
        return PartitionHistory(partition_id=partition_id, cuts=cuts)

    def within(self, run: Span) -> list[int]:
        """The commits that found a truncation, after the first commit of `run`, rising."""
        first, end = run
        commits = {branch.commit for branches in self.by_partition.values() for branch in branches}
        return sorted(commit for commit in commits if first < commit < end)


class LivePartitions:
    """The live partitions as of one state. Includes partitions of topics without a description, because nothing proves
    the topic gone."""

    def __init__(self, state: BackupState) -> None:
        self._topics = state.topics
        self._latest = state.live_incarnations()

    def __contains__(self, partition: PartitionId) -> bool:
        return partition.incarnation in self._latest or partition.incarnation not in self._topics


def history_segments(head: BackupState, history: PartitionHistory, branches: Branches) -> SegmentList:
    """The segments of a history, as held now by `head`, the newest state."""
    closed = branches.by_partition.get(history.partition_id, ())[history.cuts :]
    live = head.segments.get(history.partition_id, SegmentList())
    return segments_before(live, closed) if closed else live


def states_to_read(run: Span, branches: Branches) -> list[int]:
    """The commits whose states describe the needs of a run, rising: the first, those with truncations, the last."""
    first, end = run
    return sorted({first, *branches.within(run), end - 1})


def needs_of_run(
    states: Mapping[int, BackupState], run: Span, branches: Branches
) -> Iterator[tuple[PartitionHistory, Span]]:
    """The needs of the points of `run`, one or more spans for each partition; `states` are those of
    `states_to_read`."""
    first, last = states[run[0]], states[run[1] - 1]
    alive_first, alive_last = LivePartitions(first), LivePartitions(last)
    for partition, position in last.positions.items():
        before = first.positions.get(partition)
        is_new = before is None or before.end != position.end
        if is_new or partition in alive_last or partition in alive_first:
            is_whole = before is None or partition not in alive_first
            yield from _parted_at_cuts(states, run, branches, partition, is_whole=is_whole)


def _parted_at_cuts(
    states: Mapping[int, BackupState], run: Span, branches: Branches, partition: PartitionId, *, is_whole: bool
) -> Iterator[tuple[PartitionHistory, Span]]:
    """The needs of a run in one partition, in each of the partition's histories within the run."""
    first, end = run
    start = 0 if is_whole else states[first].positions[partition].log_start
    seq = first
    for branch in branches.by_partition.get(partition, ()):
        if first < branch.commit < end:
            yield branches.history_at(partition, seq), (min(start, branch.end), branch.end)
            seq = branch.commit
            start = states[seq].positions[partition].log_start
    position = states[end - 1].positions[partition]
    yield branches.history_at(partition, seq), (min(start, position.log_start, position.end), position.end)


def add_needs(needs: Needs, spans: Iterable[tuple[PartitionHistory, Span]]) -> None:
    """Add `spans` to `needs`; empty spans are ignored."""
    for history, (start, end) in spans:
        if start < end:
            needs.setdefault(history, []).append((start, end))
