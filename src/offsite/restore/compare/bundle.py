"""Many small proofs as one task: a partition of a few records is read faster than Spark starts a task.

Large partitions stay tasks of their own. In a bundle, a partition that cannot be compared does not stop the rest. A
missing broker costs a bundle a few waits, not one wait per partition: its remaining partitions are reported as not
tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from offsite.engine.runner import Done, Failed
from offsite.engine.task_attempt import wrap_foreign
from offsite.kafka.net.backoff import SilentLeaders
from offsite.kafka.net.routing import shared_router
from offsite.model.errors import OffsiteError
from offsite.model.journal import safe_trace
from offsite.model.names import named
from offsite.model.units import MIB
from offsite.restore.compare.partition import PartitionProof, ProofEnds, ProofTask, prove_partition

SMALL_BYTES = 4 * MIB
"""A partition with fewer bytes in the backup is small."""
SMALL_MAX = 64
"""Partitions of a bundle."""

ProofOutcome: TypeAlias = Done[PartitionProof] | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofBundle:
    """Partitions that one worker compares in order. `numbers`: their indexes in the plan."""

    numbers: tuple[int, ...]
    tasks: tuple[ProofTask, ...]

    @property
    def title(self) -> str:
        return named([str(task.target.topic_partition) for task in self.tasks], most=1, of="partitions")


def bundle_proofs(tasks: Sequence[ProofTask], *, slots: int) -> list[ProofBundle]:
    """All `tasks`: large tasks alone, small tasks dealt out. `slots`: number of bundles that run at once."""
    small = [number for number, task in enumerate(tasks) if _size_bytes(task) < SMALL_BYTES]
    is_small = set(small)
    count = max(min(slots, len(small)), -(-len(small) // SMALL_MAX))
    hands = [
        *((number,) for number in range(len(tasks)) if number not in is_small),
        *(tuple(small[first::count]) for first in range(count)),
    ]
    return [ProofBundle(numbers=hand, tasks=tuple(tasks[number] for number in hand)) for hand in hands]


def prove_bundle(bundle: ProofBundle, *, ends: ProofEnds) -> tuple[ProofOutcome, ...]:
    """Compare the partitions, and return the outcomes in order. For a bundle of one partition, raises the errors of the
    partition."""
    if len(bundle.tasks) == 1:
        return (Done(value=prove_partition(bundle.tasks[0], ends=ends)),)
    return tuple(_all_proven(bundle, ends))


def _all_proven(bundle: ProofBundle, ends: ProofEnds) -> Iterator[ProofOutcome]:
    silent = SilentLeaders(shared_router(ends.kafka))
    for task in bundle.tasks:
        target = task.target.topic_partition
        if (refusal := silent.refusal(target)) is not None:
            yield Failed(error=refusal, trace="", tried=False)
            continue
        outcome = _proven(task, ends)
        silent.note_result(target, outcome.error if isinstance(outcome, Failed) else None)
        yield outcome


def _proven(task: ProofTask, ends: ProofEnds) -> ProofOutcome:
    try:
        return Done(value=prove_partition(task, ends=ends))
    except OffsiteError as error:
        return Failed(error=error, trace=safe_trace(error))
    except Exception as error:  # noqa: BLE001  # reported as the outcome, and stops no other partition
        return Failed(error=wrap_foreign(error), trace=safe_trace(error))


def _size_bytes(task: ProofTask) -> int:
    return sum(segment.raw_bytes for segment in task.partition.segments)
