"""Topics that are restored into another number of partitions: judged before anything is touched, then written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from offsite.log.range import TopicPartition
from offsite.model.errors import KeylessRecord, PartitionsFailed
from offsite.pipeline.repartition import (
    RepartitionReceipt,
    RepartitionTask,
    keyless_offset,
    repartition_tasks,
    repartition_topic,
)
from offsite.pipeline.restore_copy import RestoreEnds
from offsite.pipeline.restore_plan import Repartition
from offsite.pipeline.runner import Done, Failed, OnProgress, Runner


def refuse_keyless(repartitions: Sequence[Repartition], *, ends: RestoreEnds, runner: Runner) -> None:
    """Read all that is to be repartitioned once, to find a record without a key before half of it is written.

    Raises `KeylessRecord`, and what the store raises. Topics whose keyless records go round are not read.
    """
    sources = [source for each in repartitions if not each.keyless_in_turn for source in each.sources]
    if not sources:
        return
    find = partial(keyless_offset, store=ends.store, read_committed=ends.read_committed)
    for source, offset in zip(sources, runner.run(sources, find), strict=True):
        if offset is not None:
            raise KeylessRecord(
                f"{source.source}: the record at offset {offset} has no key to find its partition by",
                hint="keep the partition count, or spread such records with --keyless in-turn: they lose their order",
            )


def write_repartitions(
    repartitions: Sequence[Repartition],
    starts: Mapping[TopicPartition, int],
    *,
    ends: RestoreEnds,
    runner: Runner,
    on_progress: OnProgress | None,
) -> list[RepartitionReceipt]:
    """Bring every target partition to its end; may run again after a crash.

    Raises `PartitionsFailed` when some topics could not be written, or what the only one that could not be raised.
    """
    tasks = [task for each in repartitions for task in repartition_tasks(each, starts)]
    if not tasks:
        return []
    outcomes = runner.run_all(tasks, partial(repartition_topic, ends=ends), on_progress=on_progress)
    _raise_failures(tasks, outcomes)
    return [receipt for outcome in outcomes if isinstance(outcome, Done) for receipt in outcome.value]


def _raise_failures(
    tasks: Sequence[RepartitionTask], outcomes: Sequence[Done[tuple[RepartitionReceipt, ...]] | Failed]
) -> None:
    failed = [(task, o.error) for task, o in zip(tasks, outcomes, strict=True) if isinstance(o, Failed)]
    if len(failed) == 1:
        raise failed[0][1]
    if failed:
        names = ", ".join(f"{task.repartition.target} ({error.message})" for task, error in failed)
        raise PartitionsFailed(
            f"{len(failed)} of {len(tasks)} repartitions failed: {names}",
            hint="cure the cause and run the same command again: it continues where it stopped",
        )
