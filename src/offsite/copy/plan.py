"""Plans: what a backup will copy, decided before anything is copied. Pure: facts in, a frozen plan out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise, zip_longest

from offsite.log.batch import LastBatch
from offsite.log.chunk import Hole
from offsite.log.range import LogRange, TopicPartition
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
from offsite.model.size import MIB
from offsite.participant.number import Form
from offsite.repository.commit import PartitionId

OF_ONE_PARTITION = (
    NoEvidence,
    LeaderUnavailable,
    SourceTruncated,
    TopicReplaced,
    NoSuchTopic,
    DamagedBatch,
    KafkaNotAuthorized,
)
"""Errors that keep one partition of a cluster from being read, and say nothing of the others."""

TASK_BYTES_MAX = 96 * MIB
"""Bytes of a task at most: large enough that a task's fixed cost (about 10 ms) vanishes, small enough for smooth
progress and cheap retries."""
TASKS_MAX = 50_000
"""Tasks of a plan, about: a larger backup has larger ones. The driver holds each until the end, and starts one after
the other."""
TASK_BYTES_MIN = 8 * MIB
"""Bytes of a task at least: below this, a segment's fixed costs (a put, a commit entry) outweigh the parallelism it
buys."""
TASK_OFFSETS_MAX = 4 << 20
"""Offsets of a task at most, where sizes are not known (no right to see them, or remote storage, of which brokers tell
no size): more records of ordinary size than a task should carry."""
TASKS_PER_SLOT = 2
"""Tasks for each core that small backups are cut into: one slow task then costs half a core, not all."""
NO_WINDOW = -1
"""In place of the offset from which on a cut needs markers: none are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBounds:
    """One partition as the source describes it: the offsets it holds are `[log_start, end)`; `end` is the high
    watermark, told in `leader_epoch` (-1: not known). `size_bytes` is its size on disk, only used for estimates (0 =
    unknown). `was_compacted`: its topic's settings say so, or said so once."""

    topic: str
    topic_id: str
    partition: int
    log_start: int
    end: int
    size_bytes: int
    leader_epoch: int = -1
    was_compacted: bool = False

    @property
    def key(self) -> PositionKey:
        return self.topic, self.topic_id, self.partition

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition as Kafka names it."""
        return TopicPartition(topic=self.topic, partition=self.partition)

    @property
    def partition_id(self) -> PartitionId:
        """The partition as a backup names it."""
        return PartitionId(topic=self.topic, topic_id=self.topic_id, partition=self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class StampWindow:
    """Where stamps of checkpoint `checkpoint` are looked for: from offset `start` of a partition on, and below that in
    what was written later than in `leader_epoch` (-1: not known): an unclean election took what was there before. Its
    participants all hear of it by `form`, and read `control_topic`."""

    checkpoint: int
    form: Form
    control_topic: str
    start: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTask:
    """One range to copy, and about how many bytes that is. `is_first`: no other task of this plan reads what lies
    before it. `border`: the batch that the log must hold right before it. `window_start`: the offset of the partition
    from which on a cut needs every marker, before the range, in it or behind it. `stamps`: which stamps are looked for,
    if any. The rest is what `PartitionBounds` says."""

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
    def key(self) -> PositionKey:
        return self.range.topic, self.topic_id, self.range.partition

    @property
    def partition_id(self) -> PartitionId:
        """The partition as a backup names it."""
        return PartitionId(topic=self.range.topic, topic_id=self.topic_id, partition=self.range.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class SickPartition:
    """A partition of the source that cannot be copied now, and the error that says why; the others can. Its position
    stays where it is."""

    topic: str
    partition: int
    error: OffsiteError


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """The ranges to copy, the holes already known, where each partition will stand afterwards, and which ones are left
    out because they are sick. `borders`: the last batch that is backed up of each, as far as it is known."""

    tasks: tuple[CopyTask, ...]
    holes: tuple[Hole, ...]
    bounds: tuple[PartitionBounds, ...]
    sick: tuple[SickPartition, ...] = ()
    starts: Mapping[PositionKey, int] = field(default_factory=dict)
    borders: Mapping[PositionKey, LastBatch] = field(default_factory=dict)

    @property
    def estimated_bytes(self) -> int:
        return sum(task.estimated_bytes for task in self.tasks)


PositionKey = tuple[str, str, int]
"""(topic, topic id, partition): positions belong to a topic incarnation. The id alone would not do: brokers before 2.8
have none."""


def plan_copy(
    bounds: Sequence[PartitionBounds],
    positions: Mapping[PositionKey, int],
    *,
    slots: int,
    borders: Mapping[PositionKey, LastBatch] | None = None,
    window_starts: Mapping[PositionKey, int] | None = None,
) -> CopyPlan:
    """The plan that cuts what lies between the committed `positions` (next offset to read) and the current ends into
    tasks.

    `slots` is how many tasks can run at once. Tasks are ordered round-robin over partitions, so that leaders share the
    load. A partition that ends before its committed position is sick. `borders`: see `CopyPlan`;
    `window_starts`: of each partition whose markers a cut needs, see `CopyTask`.
    """
    borders, window_starts = borders or {}, window_starts or {}
    sick = tuple(_ends_early(b, positions[b.key]) for b in bounds if positions.get(b.key, 0) > b.end)
    sound = [b for b in bounds if positions.get(b.key, 0) <= b.end]
    pending = [_pending(b, positions.get(b.key, b.log_start)) for b in sound]
    task_bytes = _task_bytes(sum(estimate for _, _, estimate in pending), slots)
    per_partition = [
        _cut(b, _whole(b, r, estimate, borders.get(b.key), window_starts.get(b.key, NO_WINDOW)), task_bytes)
        for b, (r, _, estimate) in zip(sound, pending, strict=True)
    ]
    tasks = tuple(t for t in chain.from_iterable(zip_longest(*per_partition)) if t is not None)
    return CopyPlan(
        tasks=tasks,
        holes=tuple(h for _, h, _ in pending if h is not None),
        bounds=tuple(sound),
        sick=sick,
        starts={b.key: positions.get(b.key, b.log_start) for b in sound},
        borders=borders,
    )


def _to_check(bounds: PartitionBounds, border: LastBatch | None) -> LastBatch | None:
    """Compaction rewrites batches, and what lies below the log start is gone: then there is nothing to compare with."""
    is_there = border is not None and bounds.log_start <= border.last_offset
    return border if is_there and not bounds.was_compacted else None


def without(plan: CopyPlan, sick: Sequence[SickPartition]) -> CopyPlan:
    """The plan `plan` without the partitions of `sick`, each named once."""
    left_out = {(each.topic, each.partition): each for each in (*plan.sick, *reversed(sick))}
    return replace(
        plan,
        tasks=tuple(t for t in plan.tasks if (t.range.topic, t.range.partition) not in left_out),
        holes=tuple(h for h in plan.holes if (h.topic, h.partition) not in left_out),
        bounds=tuple(b for b in plan.bounds if (b.topic, b.partition) not in left_out),
        sick=tuple(left_out[key] for key in sorted(left_out)),
    )


def _ends_early(bounds: PartitionBounds, committed: int) -> SickPartition:
    """Maybe the leader is new and does not know its high watermark yet; maybe the log was cut back, which
    `log_truncation` finds out."""
    error = LeaderUnavailable(
        f"{bounds.topic}/{bounds.partition} ends at {bounds.end}, before the {committed} already backed up",
        hint="run again: a new leader learns its high watermark within seconds; else look for an unclean election",
    )
    return SickPartition(topic=bounds.topic, partition=bounds.partition, error=error)


def _pending(bounds: PartitionBounds, committed: int) -> tuple[LogRange, Hole | None, int]:
    """The range still to copy, the hole before it, the estimated bytes of the range."""
    start = max(committed, bounds.log_start)
    hole = _hole(bounds, committed, start) if start > committed else None
    pending = LogRange(topic=bounds.topic, partition=bounds.partition, start=start, end=bounds.end)
    held = max(1, bounds.end - bounds.log_start)
    return pending, hole, bounds.size_bytes * len(pending) // held


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
    """Equal shares of the range: records are assumed to be of like size, a wrong guess only makes tasks uneven."""
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
