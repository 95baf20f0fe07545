"""What of a finished copy may be committed: for each partition the unbroken beginning of what was planned. Pure.

A range that failed ends its partition's progress there; later ranges of that partition become orphans, other partitions
are not held back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsite.log.chunk import Hole
from offsite.pipeline.backup_copy import BackupReceipt
from offsite.pipeline.plan import CopyPlan, CopyTask, PartitionBounds
from offsite.pipeline.runner import Done, Failed
from offsite.repository.commit import PartitionId, Position, RecordedHole
from offsite.repository.segment import Segment

Outcome = Done[BackupReceipt] | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFailure:
    """A partition whose copy stopped at offset `start`, and why."""

    topic: str
    partition: int
    start: int
    error: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    segments: tuple[Segment, ...]
    holes: tuple[RecordedHole, ...]
    positions: tuple[Position, ...]
    failed: tuple[PartitionFailure, ...]


def settle(plan: CopyPlan, outcomes: Sequence[Outcome]) -> Settlement:
    """Sort outcomes (in the order of `plan.tasks`) into what counts and what failed.

    Raises the first failure when nothing at all was copied: there is nothing to report but the error.
    """
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failed)]
    if failures and len(failures) == len(outcomes):
        raise failures[0].error
    stops = _stops(plan.tasks, outcomes)
    receipts = [
        outcome.value
        for task, outcome in zip(plan.tasks, outcomes, strict=True)
        if isinstance(outcome, Done) and not _is_beyond(task, stops)
    ]
    ids = {(b.topic, b.partition): _partition_id(b) for b in plan.bounds}
    holes = [*plan.holes, *(hole for receipt in receipts for hole in receipt.holes)]
    return Settlement(
        segments=tuple(segment for receipt in receipts for segment in receipt.segments),
        holes=tuple(_recorded(hole, ids[hole.topic, hole.partition]) for hole in holes),
        positions=tuple(_position(b, stops.get(_partition_id(b))) for b in plan.bounds),
        failed=tuple(stops.values()),
    )


def _stops(tasks: Sequence[CopyTask], outcomes: Sequence[Outcome]) -> dict[PartitionId, PartitionFailure]:
    """The first failed range of each partition that has one. Tasks of a partition come in rising order."""
    stops: dict[PartitionId, PartitionFailure] = {}
    for task, outcome in zip(tasks, outcomes, strict=True):
        if isinstance(outcome, Failed):
            stops.setdefault(_task_partition(task), _failure(task, outcome))
    return stops


def _failure(task: CopyTask, outcome: Failed) -> PartitionFailure:
    return PartitionFailure(
        topic=task.range.topic,
        partition=task.range.partition,
        start=task.range.start,
        error=outcome.error.id,
        message=outcome.error.message,
    )


def _is_beyond(task: CopyTask, stops: Mapping[PartitionId, PartitionFailure]) -> bool:
    stop = stops.get(_task_partition(task))
    return stop is not None and task.range.start >= stop.start


def _position(bounds: PartitionBounds, stop: PartitionFailure | None) -> Position:
    end = bounds.end if stop is None else stop.start
    return Position(partition_id=_partition_id(bounds), log_start=bounds.log_start, end=end)


def _recorded(hole: Hole, partition_id: PartitionId) -> RecordedHole:
    return RecordedHole(partition_id=partition_id, start=hole.start, end=hole.end, reason=hole.reason)


def _partition_id(bounds: PartitionBounds) -> PartitionId:
    return PartitionId(topic=bounds.topic, topic_id=bounds.topic_id, partition=bounds.partition)


def _task_partition(task: CopyTask) -> PartitionId:
    return PartitionId(topic=task.range.topic, topic_id=task.topic_id, partition=task.range.partition)
