"""The needs of the kept restore points in each partition of a compacted topic, read from the ends of runs of points.

A backup may have millions of points. Commits kept without a break form a run, and states are folded only at the two
ends of each run. Between the ends any offset may be the end of a point.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from offsite.log.range import PartitionId, Span, TopicIncarnation
from offsite.model.bounds import MAX_OFFSET, whole_number
from offsite.model.cleanup_policy import DELETE_RETENTION, KAFKA_DELETE_RETENTION_MS, is_compacted
from offsite.model.errors import DamagedObject, FormatTooNew
from offsite.model.journal import warned
from offsite.repository.backup import Backup
from offsite.repository.commit import TopicShape
from offsite.repository.commit_history import CommitHistory
from offsite.repository.commit_log import CommitLog
from offsite.repository.partition_history import Branch
from offsite.repository.snapshots.commit_cut import get_commit_cut
from offsite.repository.state import FIRST_SEQ, BackupState


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPoint:
    """The facts of a restore point for compaction: the ends of the partitions, and the compacted topics. `unsettled`:
    for each partition, the first offset of unsettled transactions. A consistent cut leaves transactions out, and the
    replaced records are still needed. A later point may leave out an open transaction, so the transaction's first
    record counts as unsettled."""

    seq: int
    committed_at_ms: int
    ends: Mapping[PartitionId, int]
    compacted: frozenset[TopicIncarnation]
    unsettled: Mapping[PartitionId, int]


class PointEnds:
    """The kept restore points of a backup as of `head`, its newest state, and their knowledge of `partitions`. Raises
    as `Catalog.state`."""

    def __init__(self, backup: Backup, head: BackupState, partitions: Iterable[PartitionId]) -> None:
        self._backup, self._head = backup, head
        self._partitions = tuple(partitions)
        self._wanted = frozenset(self._partitions)
        self._points: dict[int, CompactionPoint] = {}
        self._newest: dict[tuple[int, int], int] = {}
        self._branches: dict[PartitionId, list[Branch]] = {}
        for branch in head.branches:
            self._branches.setdefault(branch.partition_id, []).append(branch)
        self._runs = tuple((self._at(first), self._at(last)) for first, last in kept_runs(head.history))

    def ends(self, partition: PartitionId) -> tuple[Span, ...]:
        """The ends of points, for each run from its first end to its last, and the ends of their checkpoints. A point
        with a consistent cut ends from the cut's first left-out record on."""
        cuts = (
            end
            for checkpoint in self._head.checkpoints
            for partition_id, end in checkpoint.ends
            if partition_id == partition
        )
        unsettled = (
            (min(point.unsettled[partition], point.ends[partition]), point.ends[partition])
            for run in self._runs
            for point in run
            if partition in point.unsettled and partition in point.ends
        )
        return (*(span for _, span in self._spans(partition)), *((end, end) for end in cuts), *unsettled)

    def above(self, partition: PartitionId) -> int:
        """Below the returned offset some kept point recorded the topic as not compacted, and needs every record."""
        incarnation = partition.incarnation
        spans = (
            span for run, span in self._spans(partition) if any(incarnation not in point.compacted for point in run)
        )
        return max((high for _, high in spans), default=0)

    def tombstones_below(self, partition: PartitionId, *, start: int, configs: Mapping[str, str]) -> int:
        """Tombstones below the returned offset are older than `delete.retention.ms` at the oldest point that reads data
        from `start` on. Their age is the time from their backup to the point, by the store's clock. 0: no tombstone is
        old enough."""
        oldest = next((run[0] for run, (_, high) in self._spans(partition) if high > start), None)
        retention_ms = whole_number(configs.get(DELETE_RETENTION, str(KAFKA_DELETE_RETENTION_MS)))
        if oldest is None or retention_ms is None:
            return 0
        before = self._newest_at(oldest.committed_at_ms - retention_ms, upto=oldest.seq)
        return self._at(before).ends.get(partition, 0) if before else 0

    def _newest_at(self, time_ms: int, *, upto: int) -> int:
        """The number of the newest commit up to `upto` made at or before `time_ms`, kept or not; 0: none exists."""
        if (time_ms, upto) not in self._newest:
            times = _CommitTimes(self._backup.log, upto)
            self._newest[time_ms, upto] = bisect_right(times, time_ms)
        return self._newest[time_ms, upto]

    def _spans(self, partition: PartitionId) -> Iterator[tuple[tuple[CompactionPoint, CompactionPoint], Span]]:
        for first, last in self._runs:
            if partition in last.ends:
                # 0: first backed up within the run. A truncation within the run ends points at the cut, too.
                ends = [last.ends[partition], first.ends.get(partition, 0)]
                branches = self._branches.get(partition, ())
                ends += [branch.at for branch in branches if first.seq < branch.commit <= last.seq]
                yield (first, last), (min(ends), max(ends))

    def _at(self, seq: int) -> CompactionPoint:
        if seq not in self._points:
            state = self._head if seq == self._head.seq else self._backup.catalog.state(upto=seq)
            positions = ((partition, state.positions.get(partition)) for partition in self._partitions)
            shapes = (
                state.topics.get(incarnation)
                for incarnation in {partition.incarnation for partition in self._partitions}
            )
            self._points[seq] = CompactionPoint(
                seq=seq,
                committed_at_ms=state.committed_at_ms,
                ends={partition: position.end for partition, position in positions if position is not None},
                compacted=frozenset(
                    shape.incarnation for shape in shapes if shape is not None and is_seen_compacted(shape)
                ),
                unsettled=self._unsettled(state),
            )
        return self._points[seq]

    def _unsettled(self, state: BackupState) -> dict[PartitionId, int]:
        """By partition, the first offset possibly left out by a point's cut. An unreadable cut cannot be restored, and
        holds back nothing."""
        if state.cut is None:
            return {}
        try:
            cut = get_commit_cut(self._backup.store, state.cut)
        except (DamagedObject, FormatTooNew) as error:
            warned("cut_unusable", key=state.cut.key, why=error.message)
            return {}
        unsettled: dict[PartitionId, int] = {}
        firsts = [(cut_partition.partition_id, cut_partition.floor) for cut_partition in cut.partitions]
        firsts += [(transaction.partition_id, transaction.first_offset) for transaction in cut.open]
        for partition, first in firsts:
            if partition in self._wanted:
                unsettled[partition] = min(first, unsettled.get(partition, first))
        return unsettled


def is_seen_compacted(shape: TopicShape) -> bool:
    """Whether the topic was seen to be compacted. Unreadable settings are recorded as they were before."""
    return not shape.configs_unread and is_compacted(dict(shape.configs))


class _CommitTimes(Sequence[int]):
    """The times of the first commits, read one by one on demand: dropped points are no longer in the list of points,
    and their commits still exist."""

    def __init__(self, log: CommitLog, count: int) -> None:
        self._log, self._count = log, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(self._count))]
        stored = self._log.get(FIRST_SEQ + index)
        return MAX_OFFSET if stored is None else stored.commit.committed_at_ms  # unknown: not old


def kept_runs(history: CommitHistory) -> Iterator[Span]:
    """The first and the last number of each run of restore points, both inclusive, in order."""
    first = last = None
    for low, high in _pieces(history):
        if last is not None and low != last + 1:
            yield first, last  # type: ignore[misc]  # set together
            first = None
        first, last = low if first is None else first, high
    if first is not None and last is not None:
        yield first, last


def _pieces(history: CommitHistory) -> Iterator[Span]:
    """Runs, or consecutive parts of runs: a chunk without a break is not read."""
    for chunk in history.chunks:
        if chunk.last[0] - chunk.first[0] + 1 == chunk.lines:
            yield chunk.first[0], chunk.last[0]
        else:
            yield from ((seq, seq) for seq in chunk.columns[0])
    yield from ((seq, seq) for seq in history.tail[0])
