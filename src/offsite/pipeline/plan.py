"""Plans: what a backup will copy, decided before anything is copied. Pure: facts in, a frozen plan out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, zip_longest

from offsite.log.chunk import Hole
from offsite.log.range import LogRange
from offsite.model.errors import SourceTruncated
from offsite.model.size import MIB

TASK_BYTES_MAX = 96 * MIB
"""Large enough that a task's fixed cost (about 10 ms) vanishes, small enough for smooth progress and cheap retries."""
TASK_BYTES_MIN = 8 * MIB
"""Below this a segment's fixed costs (a put, a commit entry) outweigh the parallelism it buys."""
TASKS_PER_SLOT = 2
"""Small backups are cut so that each core gets this many tasks: one slow task then costs half a core, not all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBounds:
    """What the source says of one partition: offsets it holds are `[log_start, end)`; `end` is the high watermark.
    `size_bytes` is its size on disk, only used for estimates (0 = unknown)."""

    topic: str
    topic_id: str
    partition: int
    log_start: int
    end: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTask:
    """One range to copy, and about how many bytes that is."""

    topic_id: str
    range: LogRange
    estimated_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """The ranges to copy, the holes already known, and where each partition will stand afterwards."""

    tasks: tuple[CopyTask, ...]
    holes: tuple[Hole, ...]
    bounds: tuple[PartitionBounds, ...]

    @property
    def estimated_bytes(self) -> int:
        return sum(task.estimated_bytes for task in self.tasks)


PositionKey = tuple[str, int]
"""(topic id, partition): positions belong to a topic incarnation, never to a name."""


def plan_copy(bounds: Sequence[PartitionBounds], positions: Mapping[PositionKey, int], *, slots: int) -> CopyPlan:
    """Cut what lies between the committed `positions` (next offset to read) and the current ends into tasks.

    `slots` is how many tasks can run at once. Tasks are ordered round-robin over partitions, so that leaders share
    the load. Raises `SourceTruncated` for a partition that ends before its committed position.
    """
    pending = [_pending(b, positions.get((b.topic_id, b.partition))) for b in bounds]
    task_bytes = _task_bytes(sum(estimate for _, _, estimate in pending), slots)
    per_partition = [_cut(b, r, estimate, task_bytes) for b, (r, _, estimate) in zip(bounds, pending, strict=True)]
    tasks = tuple(t for t in chain.from_iterable(zip_longest(*per_partition)) if t is not None)
    return CopyPlan(tasks=tasks, holes=tuple(h for _, h, _ in pending if h is not None), bounds=tuple(bounds))


def _pending(bounds: PartitionBounds, position: int | None) -> tuple[LogRange, Hole | None, int]:
    """The range still to copy, the hole before it, the estimated bytes of the range."""
    committed = bounds.log_start if position is None else position
    if committed > bounds.end:
        raise SourceTruncated(
            f"{bounds.topic}/{bounds.partition} ends at {bounds.end}, before the {committed} already backed up",
            hint="the source lost records (unclean leader election?): keep this backup and start a new one",
        )
    start = max(committed, bounds.log_start)
    hole = _hole(bounds, committed, start) if start > committed else None
    pending = LogRange(topic=bounds.topic, partition=bounds.partition, start=start, end=bounds.end)
    held = max(1, bounds.end - bounds.log_start)
    return pending, hole, bounds.size_bytes * len(pending) // held


def _hole(bounds: PartitionBounds, start: int, end: int) -> Hole:
    return Hole(topic=bounds.topic, partition=bounds.partition, start=start, end=end, reason="retention")


def _task_bytes(total_bytes: int, slots: int) -> int:
    return min(TASK_BYTES_MAX, max(TASK_BYTES_MIN, total_bytes // (slots * TASKS_PER_SLOT)))


def _cut(bounds: PartitionBounds, pending: LogRange, estimated_bytes: int, task_bytes: int) -> list[CopyTask]:
    """Equal shares of the range: records are assumed to be of like size, a wrong guess only makes tasks uneven."""
    if not pending:
        return []
    count = min(len(pending), max(1, round(estimated_bytes / task_bytes)))
    edges = [pending.start + len(pending) * i // count for i in range(count + 1)]
    return [
        CopyTask(
            topic_id=bounds.topic_id,
            range=LogRange(topic=bounds.topic, partition=bounds.partition, start=start, end=end),
            estimated_bytes=estimated_bytes // count,
        )
        for start, end in pairwise(edges)
    ]
