"""Any partition of a restore, as one function for the workers: topics of both offset modes run together, several
partitions at a time in one task.

A broker takes about as long over a request as over the batch of a small one. Partitions of one leader that are written
together share requests, so a task has several; and small partitions cost less than a task of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from offsite.copy.restore.preserve.copy import PreserveTask, preserve_partition
from offsite.copy.restore.translate import RestoreEnds, RestoreReceipt, RestoreSteps, RestoreTask, translate_partition
from offsite.kafka.appending.lane import Lanes
from offsite.kafka.net.routing import shared_router
from offsite.model.errors import OffsiteError
from offsite.model.journal import safe_trace
from offsite.model.size import MIB
from offsite.spark.runner import Done, Failed
from offsite.spark.task_attempt import foreign

AnyRestoreTask: TypeAlias = RestoreTask | PreserveTask
Written: TypeAlias = Done[RestoreReceipt] | Failed

TOGETHER_MAX = 4
"""Partitions that a task writes in turns. More of them gain little, and each has memory of its own."""
SMALL_BYTES = 4 * MIB
"""A partition with fewer bytes is small: it takes about as long to begin as to write."""
SMALL_MAX = 64
"""Small partitions of a bundle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreBundle:
    """Partitions that one worker writes, `TOGETHER_MAX` at a time, and their places in the plan."""

    numbers: tuple[int, ...]
    tasks: tuple[AnyRestoreTask, ...]


def bundled(tasks: Sequence[AnyRestoreTask], *, slots: int) -> list[RestoreBundle]:
    """All `tasks`, dealt out by size, the largest first, so that bundles are alike. `slots`: how many run at once."""
    ordered = sorted(range(len(tasks)), key=lambda number: -_size_bytes(tasks[number]))
    large = [number for number in ordered if _size_bytes(tasks[number]) >= SMALL_BYTES]
    small = ordered[len(large) :]
    rounds = -(-len(large) // (slots * TOGETHER_MAX))
    count = max(min(slots, len(small)), -(-len(small) // SMALL_MAX))
    hands = [*_dealt(large, min(rounds * slots, len(large))), *_dealt(small, count)]
    return [RestoreBundle(numbers=hand, tasks=tuple(tasks[number] for number in hand)) for hand in hands]


def write_bundle(bundle: RestoreBundle, *, ends: RestoreEnds) -> tuple[Written, ...]:
    """Write the partitions, and return the outcome of each, in their order: one that cannot be written spares the
    others. Raises what a partition raises that is alone."""
    if len(bundle.tasks) == 1:
        return (Done(value=restore_any_partition(bundle.tasks[0], ends=ends)),)
    lanes = Lanes(shared_router(ends.kafka))
    waiting = deque(enumerate(_steps(task, ends, lanes) for task in bundle.tasks))
    under_way = deque[tuple[int, RestoreSteps]]()
    outcomes: dict[int, Written] = {}
    while waiting or under_way:
        while waiting and len(under_way) < TOGETHER_MAX:
            under_way.append(waiting.popleft())
        number, steps = under_way.popleft()
        outcome = _step(steps)
        if outcome is None:
            under_way.append((number, steps))
        else:
            outcomes[number] = outcome
    return tuple(outcomes[number] for number in range(len(bundle.tasks)))


def restore_any_partition(task: AnyRestoreTask, *, ends: RestoreEnds) -> RestoreReceipt:
    """Write one partition alone. Raises what its mode raises."""
    steps = _steps(task, ends, Lanes(shared_router(ends.kafka)))
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            receipt: RestoreReceipt = ended.value
            return receipt


def _steps(task: AnyRestoreTask, ends: RestoreEnds, lanes: Lanes) -> RestoreSteps:
    if isinstance(task, PreserveTask):
        return preserve_partition(task, ends=ends, lanes=lanes)
    return translate_partition(task, ends=ends, lanes=lanes)


def _step(steps: RestoreSteps) -> Written | None:
    """One step; None: there are more."""
    try:
        next(steps)
    except StopIteration as ended:
        return Done(value=ended.value)
    except OffsiteError as error:
        return Failed(error=error, trace=safe_trace(error))
    except Exception as error:  # noqa: BLE001  # it is told, and spares the others
        return Failed(error=foreign(error), trace=safe_trace(error))
    return None


def _size_bytes(task: AnyRestoreTask) -> int:
    return sum(segment.raw_bytes for segment in task.partition.segments)


def _dealt(numbers: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    return (tuple(numbers[first::count]) for first in range(count))
