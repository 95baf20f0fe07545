"""Accounts for the offsets of a partition, and finds the commits that brought the data of its segments. Pure.

A commit accounts for the offsets behind a moved position by segments, holes and proven gaps. A segment accounts for the
offsets from its first batch to the end of its last batch. The segment's range alone proves nothing: where no batch is,
a gap must give the reason. Later commits may remove segments. A merge loses nothing: the new segments cover the old
ones. Any other removal is a hole of the restore points that held the data. A segment of a roll-up has its data from the
merged segments; their commits are searched from the newest down, because a roll-up names what it replaced.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from sys import maxsize

from offsite.log.range import LogRange, PartitionId, Span, TopicIncarnation, TopicPartition, uncovered
from offsite.repository.commit import CommitChanges, ProvenGap, RecordedHole, StoredCommit
from offsite.repository.layout import parse_segment_key
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState, segment_partition

REMOVED = "removed"
"""The reason of a hole caused by a later commit: the source had the data, and the backup no longer has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnaccountedRange:
    """Offsets passed over by a commit without an account."""

    partition_id: PartitionId
    start: int
    end: int

    def __str__(self) -> str:
        where = self.partition_id
        return str(LogRange(topic=where.topic, partition=where.partition, start=self.start, end=self.end))


def segment_span(segment: Segment) -> Span:
    """The offsets that the batches of a segment account for."""
    return max(segment.start, segment.first_offset), segment.last_offset + 1


def frontier(start: int, spans: Iterable[Span]) -> int:
    """The first offset from `start` on that `spans`, in any order, do not cover."""
    return next((low for low, _ in uncovered(start, maxsize, sorted(spans))), maxsize)


def is_covered(start: int, end: int, spans: Iterable[Span]) -> bool:
    """Whether `spans`, in any order, cover every offset of `[start, end)`."""
    return next(iter(uncovered(start, end, sorted(spans))), None) is None


def find_unaccounted(changes: CommitChanges, before: Mapping[PartitionId, int]) -> Iterator[UnaccountedRange]:
    """The offsets passed over by positions of `changes` without an account.

    `before`: the accounted end of each known partition (see `BackupState.accounted_ends`). A new partition starts at
    its log start, a truncated log at the cut.
    """
    spans = _spans(changes)
    before = {**before, **{cut.partition_id: cut.at for cut in changes.cut_back}} if changes.cut_back else before
    for position in changes.positions:
        start = before.get(position.partition_id, position.log_start)
        covering = spans.get(position.partition_id, ())
        if len(covering) == 1 and covering[0][0] <= start and position.end <= covering[0][1]:
            continue  # the usual case
        for low, high in uncovered(start, position.end, sorted(covering)):
            yield UnaccountedRange(partition_id=position.partition_id, start=low, end=high)


class CoverageWalk:
    """Walks through the commits of a backup in order, without a state. `is_accounted`: a commit promised an account of
    all passed offsets (`CommitChanges.accounted`). Commits of earlier versions gave no promise; none of them follows a
    commit with the promise."""

    def __init__(self) -> None:
        self._before: dict[PartitionId, int] = {}
        self.is_accounted = False

    def take(self, changes: CommitChanges) -> Iterator[UnaccountedRange]:
        """The offsets that the next commit passed over."""
        self.is_accounted |= changes.accounted
        judged = changes if self.is_accounted else _as_earlier_versions_meant(changes)
        yield from find_unaccounted(judged, self._before)
        self._before |= {cut.partition_id: cut.at for cut in changes.cut_back}
        for segment in changes.segments:
            self._reach(segment_partition(segment), segment.last_offset + 1)
        for position in changes.positions:
            self._reach(position.partition_id, position.end)

    def resume_from(self, state: BackupState) -> None:
        """Continue after `state`; the commits up to `state` were unreadable."""
        self._before, self.is_accounted = state.accounted_ends(), state.accounted

    def _reach(self, partition: PartitionId, end: int) -> None:
        self._before[partition] = max(self._before.get(partition, 0), end)


def find_removed(point: BackupState, served: BackupState, *, head: BackupState) -> Iterator[RecordedHole]:
    """Ranges of the segments of `point`, below its positions, that no segment of `served` covers. `served` is the same
    point with the segments that hold its data now, in `head`.

    The ranges become holes; otherwise a reader would take them for never written. Excluded: data in front of the
    point's need removed by retention, and records that a compaction found to be superseded.
    """
    for partition, segments in point.segments.items():
        end, begin = point.positions[partition].end, head.held_start(point, partition)
        live = served.segments.get(partition, ())
        keys = {segment.key for segment in live if segment.whole is None}
        for segment in segments:
            if segment.key not in keys:
                covered = [(other.start, other.next_offset) for other in live]
                covered = sorted((*covered, *head.compacted.get(partition, ())))
                for low, high in uncovered(max(segment.start, begin), min(segment.end, end), covered):
                    yield RecordedHole(partition_id=partition, start=low, end=high, reason=REMOVED)


def find_needed_but_expired(
    point: BackupState, *, head: BackupState, incarnations: Collection[TopicIncarnation] | None = None
) -> Iterator[RecordedHole]:
    """Ranges needed by `point`, of the data of its topics at the time, and recorded as expired by `head`. No writer of
    offsite expires needed data, so the ranges must not pass for retention. `incarnations`: topics to check instead of
    the live topics."""
    needed = point.live_incarnations() if incarnations is None else incarnations
    for partition, position in point.positions.items():
        begin = min(head.held_start(point, partition), position.end)
        if position.log_start < begin and partition.incarnation in needed:
            yield RecordedHole(partition_id=partition, start=position.log_start, end=begin, reason=REMOVED)


def _spans(changes: CommitChanges) -> dict[PartitionId, list[Span]]:
    spans: dict[PartitionId, list[Span]] = {}
    for segment in changes.segments:
        spans.setdefault(segment_partition(segment), []).append(segment_span(segment))
    stretches: tuple[RecordedHole | ProvenGap, ...] = (*changes.holes, *changes.gaps)
    for stretch in stretches:
        spans.setdefault(stretch.partition_id, []).append((stretch.start, stretch.end))
    return spans


def _as_earlier_versions_meant(changes: CommitChanges) -> CommitChanges:
    """Earlier versions took a segment's whole range as accounted for."""
    meant = tuple(
        ProvenGap(
            partition_id=segment_partition(segment), start=segment.start, end=segment.end, evidence="", seen_at=-1
        )
        for segment in changes.segments
    )
    return replace(changes, gaps=(*changes.gaps, *meant))


@dataclass(frozen=True, slots=True)
class Origins:
    """The `commits` that brought the offsets of one segment; each covers the offsets from the entry at the same index
    of `starts` on."""

    starts: tuple[int, ...]
    commits: tuple[int, ...]

    @classmethod
    def of(cls, commit: int) -> Origins:
        """All data from one commit."""
        return cls((0,), (commit,))

    @property
    def oldest(self) -> int:
        """The oldest of the commits."""
        return min(self.commits)

    def at(self, offset: int) -> int:
        """The number of the commit that brought the batch beginning at `offset`."""
        return self.commits[max(0, bisect_right(self.starts, offset) - 1)]


def find_origins(commits: Iterable[StoredCommit], keys: Iterable[str]) -> dict[str, Origins]:
    """The origins of segments, by key. `commits` come newest first, and are read until all origins are found. A key
    listed by no commit is left out."""
    roots_by_key: dict[str, list[str]] = {key: [key] for key in keys}
    where: dict[str, PartitionId] = {}
    origins: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    reading = iter(commits)
    while roots_by_key and (stored := next(reading, None)) is not None:
        replaced = _by_partition(stored.commit.changes.removed)
        for segment in stored.commit.changes.segments:
            for root in roots_by_key.pop(segment.key, ()):
                if where.setdefault(root, segment_partition(segment)) != segment_partition(segment):
                    continue  # keys do not name the incarnation
                if parts := list(_made_of(segment, replaced)):
                    for key in parts:
                        roots_by_key.setdefault(key, []).append(root)
                else:
                    origins[root].append((segment.start, stored.commit.seq))
    return {root: Origins(*map(tuple, zip(*sorted(pairs), strict=True))) for root, pairs in origins.items()}


def find_range_origins(
    commits: Iterable[StoredCommit], partition: PartitionId, *, span: Span, held_spans: Iterable[Span]
) -> Origins | None:
    """The commits that brought the offsets of `span` inside `held_spans`, of one partition; None if none of `commits`
    did. `commits` come newest first, and are read until all offsets are found. A roll-up brings no data."""
    low, high = span
    missing = [(max(low, start), min(high, end)) for start, end in held_spans if start < high and low < end]
    origins: list[tuple[int, int]] = []
    reading = iter(commits)
    while missing and (stored := next(reading, None)) is not None:
        replaced = _by_partition(stored.commit.changes.removed)
        for segment in stored.commit.changes.segments:
            if segment_partition(segment) == partition and next(_made_of(segment, replaced), None) is None:
                remaining = [part for gap in missing for part in uncovered(*gap, [(segment.start, segment.end)])]
                if remaining != missing:
                    origins.append((segment.start, stored.commit.seq))
                missing = remaining
    return Origins(*map(tuple, zip(*sorted(origins), strict=True))) if origins else None


_Replaced = dict[TopicPartition, list[tuple[int, str]]]


def _by_partition(keys: Sequence[str]) -> _Replaced:
    keys_by_partition: _Replaced = {}
    for key in keys:
        if (name := parse_segment_key(key)) is not None:
            keys_by_partition.setdefault(TopicPartition(topic=name.topic, partition=name.partition), []).append(
                (name.start, key)
            )
    return keys_by_partition


def _made_of(segment: Segment, replaced: _Replaced) -> Iterator[str]:
    """The keys of the segments merged into this segment; none for a segment written by a backup."""
    for start, key in replaced.get(TopicPartition(topic=segment.topic, partition=segment.partition), ()):
        if segment.start <= start < segment.end:
            yield key
