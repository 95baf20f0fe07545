"""The needs of restore points: the offsets of each partition that a kept point reads, and so the segments that none
needs. Pure.

A point needs `[log start, end)` of a live partition, as stated in its commit. A run of points kept without a break
needs the union: from the log start of the first point to the end of the last, because both only rise as long as the log
is not truncated. A truncation splits the run: the needs before belong to the closed history. So the states at the ends
and at the cuts describe a run of millions of points.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter

from offsite.log.range import PartitionId, Span
from offsite.repository.commit import LIVE, ExpiredRange
from offsite.repository.partition_history import Branch, join_spans, segments_before
from offsite.repository.segments.segment import Segment, SegmentList
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
    the topic gone.

    A partition is live as of a point if its topic is the latest of its name and not known to be deleted. A partition
    created within the run is needed as a whole. The same holds for a partition moved within the run, but not live at
    the run's beginning.
    """

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


MayGo = Callable[[PartitionHistory, Segment], bool]
"""Whether a segment of a history may expire once no point needs it."""


def allow_any(_history: PartitionHistory, _segment: Segment) -> bool:
    """Every unneeded segment may expire."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredSegments:
    """The expired data of a partition: ranges, number of segments, and freed bytes. A segment parted by a cut frees no
    bytes while one part stays. `held_bytes`: all bytes held before."""

    ranges: tuple[ExpiredRange, ...]
    segments: int
    bytes: int
    held_bytes: int


@dataclass(slots=True)
class NeededBytes:
    """The total size of the needed segments, while needs are added."""

    head: BackupState
    branches: Branches
    total: int = 0
    _lists: dict[PartitionHistory, tuple[Segment, ...]] = field(default_factory=dict)
    _counted: set[str] = field(default_factory=set)

    def add(self, needs: Iterable[tuple[PartitionHistory, Span]]) -> None:
        """Count the segments of `needs` that were not counted before."""
        for segment in self._new(needs):
            self._counted.add(segment.key)
            self.total += segment.stored_bytes

    def total_with(self, needs: Iterable[tuple[PartitionHistory, Span]]) -> int:
        """The total including `needs`, without adding them."""
        return self.total + sum(segment.stored_bytes for segment in self._new(needs))

    def _new(self, needs: Iterable[tuple[PartitionHistory, Span]]) -> Iterator[Segment]:
        keys: set[str] = set()
        for history, (start, end) in needs:
            if history not in self._lists:
                self._lists[history] = history_segments(self.head, history, self.branches).read()
            for segment in overlapping(self._lists[history], start, end):
                if segment.key not in self._counted and segment.key not in keys:
                    keys.add(segment.key)
                    yield segment


def overlapping(segments: Sequence[Segment], start: int, end: int) -> Iterator[Segment]:
    """The segments, rising, with any offset of `[start, end)`: the last batch of a segment may extend past the
    segment's end."""
    if start >= end:
        return
    low = max(0, bisect_right(segments, start, key=attrgetter("start")) - 2)  # its last batch may overlap
    for segment in segments[low : bisect_left(segments, end, key=attrgetter("start"))]:
        if max(segment.end, segment.last_offset + 1) > start:
            yield segment


@dataclass(slots=True, kw_only=True)
class UnneededSegments:
    """The unneeded segments in `head`, the newest state, if restore points need only `needs`. `may_go` decides about
    single segments.

    A range of expiring offsets covers adjacent expired segments, and no offset needed by a kept point, not even offsets
    without a segment: a point is served by the data after the last expired range below its end. The newest segment of a
    live partition always stays. A size limit keeps as many of the newest points as fit, beside the points that always
    stay.
    """

    head: BackupState
    needs: Needs
    may_go: MayGo
    branches: Branches = field(init=False)
    _alive: LivePartitions = field(init=False)

    def __post_init__(self) -> None:
        self.branches, self._alive = Branches.of(self.head), LivePartitions(self.head)

    def partitions(self) -> list[PartitionId]:
        """All partitions with segments, sorted."""
        return sorted({*self.head.segments, *self.branches.by_partition})

    def of(self, partition_id: PartitionId) -> ExpiredSegments:
        """The expired segments of one partition."""
        if (held_bytes := self._all_needed_bytes(partition_id)) is not None:
            return ExpiredSegments(ranges=(), segments=0, bytes=0, held_bytes=held_bytes)
        lists = list(self._lists(partition_id))
        needed = self._needed(partition_id, lists[0][2])
        spans = self._spans(partition_id)
        ranges: list[ExpiredRange] = []
        went: dict[str, int] = {}
        stays: dict[str, int] = {}
        segments = 0
        for history, branch, listed in lists:
            goes = [
                segment
                for segment in self._free(partition_id, branch, listed)
                if (segment.key, segment.start) not in needed and self.may_go(history, segment)
            ]
            going = {(segment.key, segment.start) for segment in goes}
            stays |= {
                segment.key: segment.stored_bytes for segment in listed if (segment.key, segment.start) not in going
            }
            went |= {segment.key: segment.stored_bytes for segment in goes}
            segments += len(goes)
            end = self.head.positions[partition_id].end if branch is None else branch.end
            ranges += _ranges(partition_id, branch, goes, listed, spans, end=end)
        freed = sum(size for key, size in went.items() if key not in stays)
        return ExpiredSegments(
            ranges=tuple(ranges), segments=segments, bytes=freed, held_bytes=freed + sum(stays.values())
        )

    def _all_needed_bytes(self, partition_id: PartitionId) -> int | None:
        """The stored bytes of a partition whose only history is needed as a whole; None for another one. Reads no
        segment, only figures."""
        live = self.head.segments.get(partition_id)
        if not live or partition_id in self.branches.by_partition:
            return None
        spans = join_spans(self.needs.get(PartitionHistory(partition_id=partition_id, cuts=0), ()))
        is_needed = any(start <= live.start and live.end <= end for start, end in spans)
        return live.figures().stored_bytes if is_needed else None

    def _lists(
        self, partition_id: PartitionId
    ) -> Iterator[tuple[PartitionHistory, Branch | None, tuple[Segment, ...]]]:
        """The segment lists of a partition, each with its history: the live list, and the lists of closed branches."""
        branches = self.branches.by_partition.get(partition_id, ())
        today = self.head.segments.get(partition_id)
        yield PartitionHistory(partition_id=partition_id, cuts=len(branches)), None, today.read() if today else ()
        for cuts, branch in enumerate(branches):
            yield PartitionHistory(partition_id=partition_id, cuts=cuts), branch, branch.segments.read()

    def _free(self, partition_id: PartitionId, branch: Branch | None, listed: Sequence[Segment]) -> Iterator[Segment]:
        """The segments not held back by the backup itself: a continuing log keeps its newest segment."""
        goes_on = branch is None and partition_id in self._alive
        end = self.head.positions[partition_id].end if branch is None else branch.end
        for segment in listed[:-1] if goes_on else listed:
            if segment.end <= end:
                yield segment

    def _needed(self, partition_id: PartitionId, today: Sequence[Segment]) -> set[tuple[str, int]]:
        """The segments needed in any history; `today`: the segments of the live history, already read."""
        needed: set[tuple[str, int]] = set()
        branches = len(self.branches.by_partition.get(partition_id, ()))
        for cuts in range(branches + 1):
            history = PartitionHistory(partition_id=partition_id, cuts=cuts)
            if spans := self.needs.get(history):
                is_today = cuts == branches
                segments = today if is_today else history_segments(self.head, history, self.branches).read()
                for start, end in join_spans(spans):
                    needed.update((segment.key, segment.start) for segment in overlapping(segments, start, end))
        return needed

    def _spans(self, partition_id: PartitionId) -> tuple[Span, ...]:
        """All needed spans, of any history of the partition."""
        cut_counts = range(len(self.branches.by_partition.get(partition_id, ())) + 1)
        keys = (PartitionHistory(partition_id=partition_id, cuts=cuts) for cuts in cut_counts)
        return join_spans(span for key in keys for span in self.needs.get(key, ()))


def _ranges(  # noqa: PLR0913  # all facts about a list
    partition_id: PartitionId,
    branch: Branch | None,
    goes: Sequence[Segment],
    listed: Sequence[Segment],
    needed: Sequence[Span],
    *,
    end: int,
) -> Iterator[ExpiredRange]:
    """The expired ranges of one list. A range at the beginning of the list begins at the history's beginning. A range
    with the last segment reaches to the history's `end`; only a history that has ended loses its last segment."""
    begin = 0 if branch is None else branch.at
    number = LIVE if branch is None else branch.number
    nexts = {(earlier.key, earlier.start): (later.key, later.start) for earlier, later in pairwise(listed)}
    low = high = -1
    last: tuple[str, int] | None = None
    for segment in goes:
        current = segment.key, segment.start
        if last is not None and nexts.get(last) == current and _is_free(high, segment.start, needed):
            high = segment.end
        else:
            if last is not None:
                yield ExpiredRange(partition_id=partition_id, start=low, end=high, branch=number)
            is_first = current == (listed[0].key, listed[0].start) and _is_free(begin, segment.start, needed)
            low, high = begin if is_first else segment.start, segment.end
        last = current
    if last is not None:
        is_last = last == (listed[-1].key, listed[-1].start) and _is_free(high, end, needed)
        high = max(high, end) if is_last else high
        yield ExpiredRange(partition_id=partition_id, start=low, end=high, branch=number)


def _is_free(start: int, end: int, needed: Iterable[Span]) -> bool:
    """Whether no offset of `[start, end)` is needed."""
    return start >= end or not any(low < end and start < high for low, high in needed)


RunNeeds = Sequence[tuple[PartitionHistory, Span]]
ReadNeeds = Callable[[Span], Generator[None, None, RunNeeds]]
"""The needs of a run of restore points, commit numbers `[first, last + 1)`."""


def first_that_fits(
    fixed: Sequence[Span], kept_runs: Sequence[Span], *, max_bytes: int, needed: NeededBytes, read: ReadNeeds
) -> Generator[None, None, int]:
    """The first commit number of the points of `kept_runs` within the limit: all points from the number on, together
    with the points of `fixed`, need at most `max_bytes`. A number after all runs, if `fixed` alone needs more. Runs
    rise, and have a point at every number."""
    for run in fixed:
        needed.add((yield from read(run)))
    for first, end in reversed(kept_runs):
        needs = yield from read((first, end))
        if needed.total_with(needs) <= max_bytes:
            needed.add(needs)
            continue
        too_many, fits = first, end
        while fits - too_many > 1:
            middle = (too_many + fits) // 2
            is_in = needed.total_with((yield from read((middle, end)))) <= max_bytes
            too_many, fits = (too_many, middle) if is_in else (middle, fits)
        return fits
    return 0
