"""Plans of backups, decided before any copy. Pure: facts in, a frozen plan out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise, zip_longest

from offsite.log.batch import LastBatch
from offsite.log.range import Hole, LogRange, PartitionId, TopicPartition
from offsite.model.errors import (
    DamagedBatch,
    KafkaNotAuthorized,
    LeaderUnavailable,
    NoEvidence,
    NoSuchTopic,
    OffsiteError,
    SourceTruncated,
    TopicReplaced,
)
from offsite.model.journal import decided
from offsite.model.units import MIB
from offsite_participant.number import Form

PARTITION_ERRORS = (
    NoEvidence,
    LeaderUnavailable,
    SourceTruncated,
    TopicReplaced,
    NoSuchTopic,
    DamagedBatch,
    KafkaNotAuthorized,
)
"""Errors that make one partition of a cluster unreadable, and say nothing about the other partitions."""

TASK_BYTES_MAX = 96 * MIB
"""Most bytes of a task: large enough that a task's fixed cost (about 10 ms) vanishes, small enough for smooth progress
and cheap retries."""
TASKS_MAX = 50_000
"""Approximate most tasks of a plan: a larger backup has larger tasks. The driver holds all tasks until the end, and
starts one after another."""
TASK_BYTES_MIN = 8 * MIB
"""Fewest bytes of a task: below this size, a segment's fixed costs (a put, a commit entry) outweigh the gain in
parallelism."""
TASK_OFFSETS_MAX = 4 << 20
"""Most offsets of a task when sizes are unknown (no right to read sizes, or remote storage without sizes): more records
of ordinary size than a task should carry."""
TASKS_PER_SLOT = 2
"""Tasks per core for small backups: one slow task costs half a core, not all cores."""
NO_WINDOW = -1
"""In place of the offset from which on a cut needs markers: no markers are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBounds:
    """One partition as described by the source: the log holds offsets `[log_start, end)`; `end` is the high watermark,
    read in `leader_epoch` (-1: unknown). `size_bytes` is the size on disk, used only for estimates (0: unknown).
    `was_compacted`: the topic's settings say so, or once said so."""

    topic: str
    topic_id: str
    partition: int
    log_start: int
    end: int
    size_bytes: int
    leader_epoch: int = -1
    was_compacted: bool = False

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(topic=self.topic, partition=self.partition)

    @property
    def partition_id(self) -> PartitionId:
        return PartitionId(topic=self.topic, topic_id=self.topic_id, partition=self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class StampWindow:
    """The part of a partition to search for stamps of checkpoint `checkpoint`: from offset `start` on, and below
    `start` only batches with a later epoch than `leader_epoch` (-1: unknown), because an unclean election replaces
    earlier batches. All participants of the checkpoint are notified by `form`, and read `control_topic`."""

    checkpoint: int
    form: Form
    control_topic: str
    start: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTask:
    """One range to copy, and its estimated bytes. `is_first`: no other task of the plan reads offsets before the range.
    `border`: the batch that the log must hold right before the range. `window_start`: the offset of the partition from
    which on a cut needs every marker, before the range, inside or behind. `stamps`: the stamps to look for, if any. For
    the remaining fields see `PartitionBounds`."""

    topic_id: str
    range: LogRange
    estimated_bytes: int
    is_first: bool = True
    border: LastBatch | None = None
    window_start: int = NO_WINDOW
    stamps: StampWindow | None = None
    leader_epoch: int = -1
    was_compacted: bool = False

    @property
    def partition_id(self) -> PartitionId:
        return PartitionId(topic=self.range.topic, topic_id=self.topic_id, partition=self.range.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class SickPartition:
    """A partition of the source that cannot be copied now, and the error. Other partitions can be copied. The position
    of the sick partition stays unchanged."""

    topic: str
    partition: int
    error: OffsiteError


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """The ranges to copy, the holes already known, the bounds of all partitions, and the sick partitions left out.
    `starts`: the position of every partition before the copy. `borders`: the last batch in the backup of every
    partition, if known."""

    tasks: tuple[CopyTask, ...]
    holes: tuple[Hole, ...]
    bounds: tuple[PartitionBounds, ...]
    sick: tuple[SickPartition, ...] = ()
    starts: Mapping[PartitionId, int] = field(default_factory=dict)
    borders: Mapping[PartitionId, LastBatch] = field(default_factory=dict)

    @property
    def estimated_bytes(self) -> int:
        return sum(task.estimated_bytes for task in self.tasks)


def plan_copy(
    bounds: Sequence[PartitionBounds],
    positions: Mapping[PartitionId, int],
    *,
    slots: int,
    borders: Mapping[PartitionId, LastBatch] | None = None,
    window_starts: Mapping[PartitionId, int] | None = None,
) -> CopyPlan:
    """The plan that cuts the offsets between the committed `positions` (next offset to read) and the current ends into
    tasks.

    `slots` is the number of tasks that can run at once. Tasks are ordered round-robin over partitions: leaders share
    the load. A partition that ends before its committed position is sick. `borders`: see `CopyPlan`; `window_starts`:
    by partition with markers for a cut, see `CopyTask`.
    """
    borders, window_starts = borders or {}, window_starts or {}
    ahead = {b.partition_id for b in bounds if positions.get(b.partition_id, 0) > b.end}
    sound = [b for b in bounds if b.partition_id not in ahead]
    starts = {b.partition_id: positions.get(b.partition_id, b.log_start) for b in sound}
    pending = [_pending(b, starts[b.partition_id]) for b in sound]
    task_bytes = _task_bytes(sum(estimate for _, _, estimate in pending), slots)
    per_partition = []
    for b, (log_range, _, estimate) in zip(sound, pending, strict=True):
        window_start = window_starts.get(b.partition_id, NO_WINDOW)
        whole = _whole(b, log_range, estimate, borders.get(b.partition_id), window_start)
        per_partition.append(_cut(b, whole, task_bytes))
    tasks = tuple(t for t in chain.from_iterable(zip_longest(*per_partition)) if t is not None)
    return CopyPlan(
        tasks=tasks,
        holes=tuple(h for _, h, _ in pending if h is not None),
        bounds=tuple(sound),
        sick=tuple(_ends_early(b, positions[b.partition_id]) for b in bounds if b.partition_id in ahead),
        starts=starts,
        borders=borders,
    )


def _to_check(bounds: PartitionBounds, border: LastBatch | None) -> LastBatch | None:
    """Compaction rewrites batches, and batches below the log start are gone: nothing remains to compare with."""
    is_there = border is not None and bounds.log_start <= border.last_offset
    return border if is_there and not bounds.was_compacted else None


def without_partitions(plan: CopyPlan, sick: Sequence[SickPartition]) -> CopyPlan:
    """The plan `plan` without the partitions of `sick`; names every sick partition once."""
    left_out = {
        TopicPartition(sick_partition.topic, sick_partition.partition): sick_partition
        for sick_partition in (*plan.sick, *reversed(sick))
    }
    return replace(
        plan,
        tasks=tuple(t for t in plan.tasks if t.range.topic_partition not in left_out),
        holes=tuple(h for h in plan.holes if h.topic_partition not in left_out),
        bounds=tuple(b for b in plan.bounds if b.topic_partition not in left_out),
        sick=tuple(left_out[key] for key in sorted(left_out)),
    )


def _ends_early(bounds: PartitionBounds, committed: int) -> SickPartition:
    """Maybe the leader is new and does not know its high watermark yet; maybe the log was cut back, as `log_truncation`
    finds out."""
    error = LeaderUnavailable(
        f"{bounds.topic}/{bounds.partition} ends at {bounds.end}, before the {committed} already backed up",
        hint=(
            "run again: a new leader learns its high watermark within seconds; if the error stays, look for an "
            "unclean leader election"
        ),
    )
    return SickPartition(topic=bounds.topic, partition=bounds.partition, error=error)


def _pending(bounds: PartitionBounds, committed: int) -> tuple[LogRange, Hole | None, int]:
    """The range still to copy, the hole before the range, the estimated bytes of the range."""
    start = max(committed, bounds.log_start)
    hole = _hole(bounds, committed, start) if start > committed else None
    pending = LogRange(topic=bounds.topic, partition=bounds.partition, start=start, end=bounds.end)
    log_offsets = max(1, bounds.end - bounds.log_start)
    return pending, hole, bounds.size_bytes * len(pending) // log_offsets


def _hole(bounds: PartitionBounds, start: int, end: int) -> Hole:
    decided(
        "hole",
        why=f"the log starts at {end}",
        topic=bounds.topic,
        partition=bounds.partition,
        start=start,
        end=end,
        leader_epoch=bounds.leader_epoch,
    )
    return Hole(topic=bounds.topic, partition=bounds.partition, start=start, end=end, reason="retention")


def _task_bytes(total_bytes: int, slots: int) -> int:
    large = max(TASK_BYTES_MAX, total_bytes // TASKS_MAX)
    return min(large, max(TASK_BYTES_MIN, total_bytes // (slots * TASKS_PER_SLOT)))


def _whole(
    bounds: PartitionBounds, pending: LogRange, estimated_bytes: int, border: LastBatch | None, window_start: int
) -> CopyTask:
    return CopyTask(
        topic_id=bounds.topic_id,
        range=pending,
        estimated_bytes=estimated_bytes,
        border=_to_check(bounds, border),
        window_start=window_start,
        leader_epoch=bounds.leader_epoch,
        was_compacted=bounds.was_compacted,
    )


def _cut(bounds: PartitionBounds, whole: CopyTask, task_bytes: int) -> list[CopyTask]:
    """Equal shares of the range: assumes records of similar size; a wrong guess only makes tasks uneven."""
    pending = whole.range
    if not pending:
        return []
    by_offsets = 0 if bounds.size_bytes else len(pending) // TASK_OFFSETS_MAX
    count = min(len(pending), max(1, round(whole.estimated_bytes / task_bytes), by_offsets))
    edges = [pending.start + len(pending) * i // count for i in range(count + 1)]
    return [
        replace(
            whole,
            range=replace(pending, start=start, end=end),
            estimated_bytes=whole.estimated_bytes // count,
            is_first=start == pending.start,
            border=whole.border if start == pending.start else None,
        )
        for start, end in pairwise(edges)
    ]
