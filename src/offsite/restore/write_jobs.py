"""The copying part of a restore: writes every partition, at its own offsets or gap-free, until none is left; then
topics restored into another number of partitions, which are judged before anything is touched. A schema registry's
topic is written before the topics with values that need schemas.

A topic cannot be continued after three events: brokers ended its open transactions while nobody wrote, brokers wrote
markers twice, or an earlier attempt wrote as well. This very restore made the topic: the topic is deleted and written
again from its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from offsite.engine.bundles import Bundle, run_bundles
from offsite.engine.runner import Done, Failed, OnProgress, Runner, job_named
from offsite.kafka.admin import ClusterAdmin
from offsite.log.range import TopicPartition
from offsite.model.errors import (
    Damaged,
    KafkaNotAuthorized,
    KeylessRecord,
    OffsiteError,
    PartitionsFailed,
)
from offsite.model.names import amount, named
from offsite.model.topic_choices import PartitionCounts
from offsite.repository.restores.record import RestoreRecord, RestoreTargets
from offsite.restore.offsets import OffsetsVerdict
from offsite.restore.target_topics import (
    REMAKES_MAX,
    RestoreSite,
    check_nothing_lost,
    create_topics,
    delete_lost_topics,
    find_filled_topics,
    find_lost_topics,
    find_targets,
)
from offsite.restore.write.attempt import RestoreEnds, RestoreReceipt
from offsite.restore.write.bundle import AnyRestoreTask, WriteOutcome, bundle_restores, write_bundle
from offsite.restore.write.pieces import log_start
from offsite.restore.write.plan import Repartition, RestorePlan
from offsite.restore.write.preserve import PreserveTask
from offsite.restore.write.repartition import (
    RepartitionTask,
    keyless_offset,
    repartition_tasks,
    repartition_topic,
)
from offsite.restore.write.translate import RestoreTask

DELETE = {"DELETE": 6}
"""The operation DELETE, with the code of Kafka's AclOperation."""

WriteBundle: TypeAlias = Callable[[Bundle[AnyRestoreTask]], tuple[WriteOutcome, ...]]
_NAMED_MAX = 5
"""Topics in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Result of the writing. `targets` are the target topics as made last."""

    targets: RestoreTargets
    receipts: Sequence[RestoreReceipt]


def write_chains(
    plan: RestorePlan,
    offsets: Sequence[OffsetsVerdict],
    record: RestoreRecord,
    site: RestoreSite,
    *,
    on_progress: OnProgress | None,
) -> Written:
    """Make the topics and write `plan.partitions`. Raises `TargetNotEmpty`, and `PartitionsFailed` when some partitions
    could not be written: all other partitions are complete. Raises `KafkaNotAuthorized` before the first record."""
    ends, admin = site.ends, site.cluster.admin
    write = partial(write_bundle, ends=ends)
    show = site.lease.watch_progress(on_progress)
    outcomes: dict[TopicPartition, WriteOutcome] = {}
    lost: set[str] = set()
    tasks: Sequence[AnyRestoreTask] = ()
    names = [topic.target for topic in plan.topics]
    remake = partial(delete_lost_topics, site=site)
    for remaining in range(REMAKES_MAX, -1, -1):
        # 1. Make missing topics; a remade topic that is not empty is made again.
        create_topics(admin, record.settings)
        if remaining and (filled := find_filled_topics(admin, lost)):
            remake(filled, _written(tasks), replayed=_replayed(tasks))
            continue
        # 2. Check that nothing of earlier runs is lost, and that log starts may be moved.
        targets = find_targets(ends.records, ends.layout, admin, names, remade=lost)
        tasks = restore_tasks(plan, offsets, targets, created=record.created)
        check_nothing_lost(admin, dict(targets.starts) | _moved_starts(tasks))
        _check_may_move_starts(admin, tasks)
        # 3. Write the missing partitions, schemas first.
        missing = [task for task in tasks if task.partition.target not in outcomes]
        for wave in order_schemas_first(missing, plan):
            outcomes |= _written_together(wave, write, runner=site.runner, on_progress=show)
        # 4. Delete topics that cannot be continued, and begin them again.
        lost = find_lost_topics(_failures(outcomes), created=record.created)
        if not lost or not remaining:
            break
        remake(lost, _written(tasks), replayed=_replayed(tasks))
        outcomes = {target: outcome for target, outcome in outcomes.items() if target.topic not in lost}
    return Written(targets=targets, receipts=_receipts(tasks, outcomes))


def restore_tasks(
    plan: RestorePlan, offsets: Sequence[OffsetsVerdict], targets: RestoreTargets, *, created: Collection[str] = ()
) -> list[AnyRestoreTask]:
    """One task per partition, topics in the plan's order. A disturbed topic can be made again if this restore `created`
    it: the quick way is tried first, but not a second time."""
    translated, starts, makings = plan.by_target, dict(targets.starts), dict(targets.makings)
    tasks: list[AnyRestoreTask] = []
    for topic in offsets:
        making = makings.get(topic.target, 1)
        if topic.preserve:
            tasks += [
                PreserveTask(
                    partition=preserved.partition,
                    target_start=starts[preserved.partition.target],
                    making=making,
                    direct=preserved.way.direct,
                    careful=making > 1 or topic.target not in created,
                )
                for preserved in topic.partitions
            ]
        else:
            tasks += [
                RestoreTask(partition=partition, target_start=starts[partition.target], making=making)
                for partition in translated.get(topic.target, ())
            ]
    return tasks


def order_schemas_first(tasks: Iterable[AnyRestoreTask], plan: RestorePlan) -> list[list[AnyRestoreTask]]:
    """The tasks in waves: tasks of the schemas topic, and all other tasks. The plan and `tasks` have this order."""
    schemas = {topic.target for topic in plan.topics if topic.source.holds_schemas}
    waves: tuple[list[AnyRestoreTask], list[AnyRestoreTask]] = ([], [])
    for task in tasks:
        waves[task.partition.target.topic not in schemas].append(task)
    return [wave for wave in waves if wave]


def _written_together(
    tasks: Sequence[AnyRestoreTask], write: WriteBundle, *, runner: Runner, on_progress: OnProgress | None
) -> Mapping[TopicPartition, WriteOutcome]:
    topics = {task.partition.target.topic for task in tasks}
    with job_named(f"restore: {amount(len(topics), 'topic')}, {amount(len(tasks), 'partition')}"):
        outcomes = run_bundles(
            bundle_restores(tasks, slots=runner.slots),
            write,
            tasks=tasks,
            runner=runner,
            on_progress=on_progress,
        )
    return {task.partition.target: outcomes[number] for number, task in enumerate(tasks)}


def _written(tasks: Sequence[AnyRestoreTask]) -> list[TopicPartition]:
    return [task.partition.target for task in tasks]


def _replayed(tasks: Sequence[AnyRestoreTask]) -> set[TopicPartition]:
    """The partitions that may have transactions."""
    return {task.partition.target for task in tasks if isinstance(task, PreserveTask)}


def _check_may_move_starts(admin: ClusterAdmin, tasks: Sequence[AnyRestoreTask]) -> None:
    """Brokers treat a move of a log's start as a deletion: check the right before the first record."""
    preserved = [task for task in tasks if isinstance(task, PreserveTask)]
    moved = {task.partition.target.topic for task in preserved if log_start(task.partition.chain) > task.target_start}
    if moved and (denied := admin.not_allowed(moved, DELETE)):
        raise KafkaNotAuthorized(
            f"the principal may not DELETE on {', '.join(denied)}. DELETE is needed to start the logs at the offsets "
            "of the source",
            hint="grant the principal DELETE on the topics, or use --offsets translate",
        )


def _moved_starts(tasks: Sequence[AnyRestoreTask]) -> dict[TopicPartition, int]:
    preserved = (task for task in tasks if isinstance(task, PreserveTask))
    return {task.partition.target: max(log_start(task.partition.chain), task.target_start) for task in preserved}


def _failures(outcomes: Mapping[TopicPartition, WriteOutcome]) -> list[tuple[TopicPartition, OffsiteError]]:
    return [(target, outcome.error) for target, outcome in outcomes.items() if isinstance(outcome, Failed)]


def _receipts(
    tasks: Sequence[AnyRestoreTask], outcomes: Mapping[TopicPartition, WriteOutcome]
) -> Sequence[RestoreReceipt]:
    """The receipts of all tasks, in their order."""
    results = [(task.partition.target, outcomes[task.partition.target]) for task in tasks]
    failed = [(target, outcome.error) for target, outcome in results if isinstance(outcome, Failed)]
    if not failed:
        return [outcome.value for _, outcome in results if isinstance(outcome, Done)]
    worst = min((error for _, error in failed), key=lambda error: not isinstance(error, Damaged))
    if len(failed) in {1, len(tasks)}:
        raise worst
    names = ", ".join(f"{target} ({error.message})" for target, error in failed)
    raise PartitionsFailed(
        f"{len(failed)} of {len(tasks)} partitions failed: {names}",
        hint="remove the cause, then run the same command again: it continues where it stopped",
    ) from worst


_Outcome: TypeAlias = Done[tuple[RestoreReceipt, ...]] | Failed


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


def write_repartitions(
    repartitions: Sequence[Repartition],
    targets: RestoreTargets,
    record: RestoreRecord,
    site: RestoreSite,
    *,
    on_progress: OnProgress | None,
) -> Written:
    """Bring every target partition to its end; may run again after a crash.

    Raises `PartitionsFailed` when several topics could not be written, or the error of the only failed topic.
    """
    ends, admin = site.ends, site.cluster.admin
    write = partial(repartition_topic, ends=ends)
    show = site.lease.watch_progress(on_progress)
    results: dict[RepartitionTask, _Outcome] = {}
    missing = [task for repartition in repartitions for task in repartition_tasks(repartition, dict(targets.starts))]
    for remaining in range(REMAKES_MAX, -1, -1):
        if not missing:
            break
        with job_named(f"repartition: {amount(len(missing), 'target partition')}"):
            outcomes = site.runner.run_all(missing, write, on_progress=show)
        results |= zip(missing, outcomes, strict=True)
        lost = find_lost_topics(_failed_repartitions(results), created=record.created)
        if not lost or not remaining:
            break
        delete_lost_topics(lost, dict(targets.starts), site)
        create_topics(admin, record.settings)
        names = [target for _, target in record.topics]
        targets = find_targets(ends.records, ends.layout, admin, names, remade=lost)
        results = {task: outcome for task, outcome in results.items() if task.repartition.target not in lost}
        again = [repartition for repartition in repartitions if repartition.target in lost]
        missing = [task for repartition in again for task in repartition_tasks(repartition, dict(targets.starts))]
    _raise_failures(list(results), list(results.values()))
    receipts = [receipt for outcome in results.values() if isinstance(outcome, Done) for receipt in outcome.value]
    return Written(targets=targets, receipts=receipts)


def _failed_repartitions(results: Mapping[RepartitionTask, _Outcome]) -> list[tuple[TopicPartition, OffsiteError]]:
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
