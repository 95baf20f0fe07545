"""What restore points need of each partition: offsets, in the history that each of them knew. Pure.

A point needs of a partition that was alive `[log start, end)`, as its commit told both. A run of points that are kept
without a break needs their union: from the log start of the first to the end of the last, because both only rise, as
long as the log is not cut back. Where it was, the run is parted there: what came before is the closed history's. So a
run of millions of points is told by the states at its ends, and at the cuts within.

A partition is alive as of a point when its topic is the latest of its name and is not known to be deleted. Of one that
came within the run, or moved in it without being alive at its beginning, all is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from offsite.log.range import Span
from offsite.repository.branches import Branch, segments_before
from offsite.repository.commit import PartitionId
from offsite.repository.segments.segment import SegmentList
from offsite.repository.state import BackupState


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class KnownHistory:
    """A history of a partition: the one that is known when its log was cut back `cuts` times."""

    partition_id: PartitionId
    cuts: int


Needs = dict[KnownHistory, list[Span]]
"""The offsets of each history that are needed: spans in any order, which may overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branches:
    """The branches of the newest state, by partition, in the order in which they were cut off."""

    by_partition: Mapping[PartitionId, tuple[Branch, ...]]

    @classmethod
    def of(cls, head: BackupState) -> Branches:
        found: dict[PartitionId, list[Branch]] = {}
        for branch in sorted(head.branches, key=lambda each: each.number):
            found.setdefault(branch.partition_id, []).append(branch)
        return cls(by_partition={known: tuple(branches) for known, branches in found.items()})

    def known_at(self, partition_id: PartitionId, seq: int) -> KnownHistory:
        """The history that commit `seq` knew."""
        cuts = sum(branch.commit <= seq for branch in self.by_partition.get(partition_id, ()))
        return KnownHistory(partition_id=partition_id, cuts=cuts)

    def within(self, run: Span) -> list[int]:
        """The commits behind the first of `run` that found a log to be cut back, rising."""
        first, end = run
        commits = {branch.commit for branches in self.by_partition.values() for branch in branches}
        return sorted(commit for commit in commits if first < commit < end)


class Alive:
    """The partitions that count as of one state. Those of a topic that no commit described do: nothing says that it is
    gone."""

    def __init__(self, state: BackupState) -> None:
        self._topics = state.topics
        self._latest = state.alive()

    def __contains__(self, known: PartitionId) -> bool:
        return known.incarnation in self._latest or known.incarnation not in self._topics


def segments_of(head: BackupState, known: KnownHistory, branches: Branches) -> SegmentList:
    """The segments of a history, as `head`, the newest state, holds it now."""
    closed = branches.by_partition.get(known.partition_id, ())[known.cuts :]
    live = head.segments.get(known.partition_id, SegmentList())
    return segments_before(live, closed) if closed else live


def states_to_read(run: Span, branches: Branches) -> list[int]:
    """The commits whose states tell what a run needs, rising: its first, those that cut logs back, its last."""
    first, end = run
    return sorted({first, *branches.within(run), end - 1})


def needs_of_run(
    states: Mapping[int, BackupState], run: Span, branches: Branches
) -> Iterator[tuple[KnownHistory, Span]]:
    """What the points of `run` need, one or more spans for each partition; `states` are those of `states_to_read`."""
    first, last = states[run[0]], states[run[1] - 1]
    alive_first, alive_last = Alive(first), Alive(last)
    for known, position in last.positions.items():
        before = first.positions.get(known)
        is_new = before is None or before.end != position.end
        if is_new or known in alive_last or known in alive_first:
            is_whole = before is None or known not in alive_first
            yield from _parted_at_cuts(states, run, branches, known, is_whole=is_whole)


def _parted_at_cuts(
    states: Mapping[int, BackupState], run: Span, branches: Branches, known: PartitionId, *, is_whole: bool
) -> Iterator[tuple[KnownHistory, Span]]:
    """What a run needs of one partition, in each of the histories that it went through."""
    first, end = run
    start = 0 if is_whole else states[first].positions[known].log_start
    seq = first
    for branch in branches.by_partition.get(known, ()):
        if first < branch.commit < end:
            yield branches.known_at(known, seq), (min(start, branch.end), branch.end)
            seq = branch.commit
            start = states[seq].positions[known].log_start
    position = states[end - 1].positions[known]
    yield branches.known_at(known, seq), (min(start, position.log_start, position.end), position.end)


def add(needs: Needs, found: Iterable[tuple[KnownHistory, Span]]) -> None:
    """Add what was found to be needed; what is empty is no need."""
    for known, (start, end) in found:
        if start < end:
            needs.setdefault(known, []).append((start, end))
