"""Finds the segments needed by no kept restore point, and the ranges of expiring offsets. Pure.

A range covers adjacent expired segments, and no offset needed by a kept point, not even offsets without a segment: a
point is served by the data after the last expired range below its end. The newest segment of a live partition always
stays.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter

from offsite.log.range import Span
from offsite.repository.commit import LIVE, ExpiredRange, PartitionId
from offsite.repository.partition_history import Branch, join_spans
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState
from offsite.upkeep.retention.needs import Branches, LivePartitions, Needs, PartitionHistory, history_segments

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


@dataclass(frozen=True, slots=True, kw_only=True)
class UnneededSegments:
    """The unneeded segments in `head`, the newest state, if restore points need only `needs`. `may_go` decides about
    single segments."""

    head: BackupState
    needs: Needs
    may_go: MayGo
    branches: Branches = field(init=False)
    _alive: LivePartitions = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "branches", Branches.of(self.head))
        object.__setattr__(self, "_alive", LivePartitions(self.head))

    def partitions(self) -> list[PartitionId]:
        """All partitions with segments, sorted."""
        return sorted({*self.head.segments, *self.branches.by_partition})

    def of(self, partition_id: PartitionId) -> ExpiredSegments:
        """The expired segments of one partition."""
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
