"""Topics restored into another number of partitions: judged before anything is touched, and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from offsite.engine.runner import Done, Failed, OnProgress, Runner, job_named
from offsite.kafka.admin import ClusterAdmin
from offsite.log.range import TopicPartition
from offsite.model.errors import KeylessRecord, OffsiteError, PartitionsFailed
from offsite.model.names import amount, named
from offsite.model.topic_choices import PartitionCounts
from offsite.repository.restores.record import RestoreRecord, RestoreTargets
from offsite.restore.lease import RestoreLease
from offsite.restore.remake import REMAKES_MAX, delete_lost_topics, find_lost_topics
from offsite.restore.targets import find_targets
from offsite.restore.topics import create_topics
from offsite.restore.write.plan import Repartition, RestorePlan
from offsite.restore.write.repartition import (
    RepartitionReceipt,
    RepartitionTask,
    keyless_offset,
    repartition_tasks,
    repartition_topic,
)
from offsite.restore.write.translate import RestoreEnds

_NAMED_MAX = 5
"""Topics in one sentence."""
_Outcome: TypeAlias = Done[tuple[RepartitionReceipt, ...]] | Failed


def refuse_keyless(repartitions: Sequence[Repartition], *, ends: RestoreEnds, runner: Runner) -> None:
    """Read all topics to repartition once, to find a record without a key before the write.

    Raises `KeylessRecord`, and the errors of the store. Topics with keyless records spread in turn are not read.
    """
    sources = [
        source for repartition in repartitions if not repartition.keyless_in_turn for source in repartition.sources
    ]
    if not sources:
        return
    find = partial(keyless_offset, store=ends.store, read_committed=ends.read_committed)
    for source, offset in zip(sources, runner.run(sources, find), strict=True):
        if offset is not None:
            raise KeylessRecord(
                f"{source.source}: the record at offset {offset} has no key, so its partition is undefined",
                hint="keep the partition count, or use --keyless in-turn: the records without keys lose their order",
            )


def repartition_notes(plan: RestorePlan, counts: PartitionCounts) -> tuple[str, ...]:
    """Name the topics that already have the requested number of partitions."""
    shapes = [topic.source for topic in plan.topics]
    kept = [shape for shape in shapes if counts.leaves(shape.topic, shape.partitions, if_named=shape.holds_schemas)]
    if not kept:
        return ()
    names = named([shape.topic for shape in kept], most=_NAMED_MAX, of="topics")
    if len(kept) == 1:
        note, owner = f"{names} unchanged: it has {amount(kept[0].partitions, 'partition')} already", "its"
    else:
        note, owner = f"{names} unchanged: they have that many partitions already", "their"
    batches = f"; {owner} batches stay as they were at the source, and --batch-bytes has no effect on them"
    return (f"--repartition leaves {note}{batches if counts.batch_bytes is not None else ''}",)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRepartitions:
    """Result of the writing. `targets` are the target topics as made last."""

    targets: RestoreTargets
    receipts: Sequence[RepartitionReceipt]


def write_repartitions(  # noqa: PLR0913  # what to write, where, and who does it
    repartitions: Sequence[Repartition],
    targets: RestoreTargets,
    record: RestoreRecord,
    *,
    ends: RestoreEnds,
    admin: ClusterAdmin,
    runner: Runner,
    lease: RestoreLease,
    on_progress: OnProgress | None,
) -> WrittenRepartitions:
    """Bring every target partition to its end; may run again after a crash.

    Raises `PartitionsFailed` when several topics could not be written, or the error of the only failed topic.
    """
    write = partial(repartition_topic, ends=ends)
    results: dict[RepartitionTask, _Outcome] = {}
    missing = [task for repartition in repartitions for task in repartition_tasks(repartition, dict(targets.starts))]
    for remaining in range(REMAKES_MAX, -1, -1):
        if not missing:
            break
        with job_named(f"repartition: {amount(len(missing), 'target partition')}"):
            outcomes = runner.run_all(missing, write, on_progress=lease.watch_progress(on_progress))
        results |= zip(missing, outcomes, strict=True)
        lost = find_lost_topics(_failures(results), created=record.created)
        if not lost or not remaining:
            break
        delete_lost_topics(lost, dict(targets.starts), ends=ends, admin=admin, lease=lease)
        create_topics(admin, record.settings)
        names = [target for _, target in record.topics]
        targets = find_targets(ends.records, ends.layout, admin, names, remade=lost)
        results = {task: outcome for task, outcome in results.items() if task.repartition.target not in lost}
        again = [repartition for repartition in repartitions if repartition.target in lost]
        missing = [task for repartition in again for task in repartition_tasks(repartition, dict(targets.starts))]
    _raise_failures(list(results), list(results.values()))
    receipts = [receipt for outcome in results.values() if isinstance(outcome, Done) for receipt in outcome.value]
    return WrittenRepartitions(targets=targets, receipts=receipts)


def _failures(results: Mapping[RepartitionTask, _Outcome]) -> list[tuple[TopicPartition, OffsiteError]]:
    """The errors of tasks, under the first partition of the task."""
    return [(task.target_starts[0][0], o.error) for task, o in results.items() if isinstance(o, Failed)]


def _raise_failures(tasks: Sequence[RepartitionTask], outcomes: Sequence[_Outcome]) -> None:
    failed = [(task, o.error) for task, o in zip(tasks, outcomes, strict=True) if isinstance(o, Failed)]
    if len(failed) == 1:
        raise failed[0][1]
    if failed:
        names = ", ".join(f"{task.repartition.target} ({error.message})" for task, error in failed)
        raise PartitionsFailed(
            f"{len(failed)} of {len(tasks)} repartitions failed: {names}",
            hint="remove the cause, then run the same command again: it continues where it stopped",
        )
