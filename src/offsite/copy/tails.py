"""The tails of the ranges that were copied, joined to those of their partitions. Pure.

A task sees its own range: where a transaction began before it, and how one goes on behind it, others saw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offsite.copy.backup import BackupReceipt
from offsite.copy.plan import NO_WINDOW, CopyPlan
from offsite.log.transaction_tail import PartitionTail, TailFold, of_unknown_beginning
from offsite.log.transactions import OpenTransaction
from offsite.repository.commit import PartitionId


def joined_tails(
    plan: CopyPlan,
    receipts: Sequence[BackupReceipt],
    *,
    known_open: Mapping[PartitionId, Sequence[OpenTransaction]] | None,
) -> dict[PartitionId, PartitionTail]:
    """The tail of each partition of `plan`: what one pass over all that was copied of it would find.

    `receipts`: of every task, in the order of `plan.tasks`. `known_open`: the transactions that are open where the plan
    begins to copy, from the run before; in what order does not matter. A partition without tasks keeps them.
    None: nobody knows them, and what is seen first of a transaction may be its middle. A partition with tasks whose
    tail was not wanted is left out: nothing is known of it. Where records are missing before what the plan copies,
    nobody knows how what was open ended.
    """
    missing = {(hole.topic, hole.partition) for hole in plan.holes}
    known = {each: found for each, found in (known_open or {}).items() if (each.topic, each.partition) not in missing}
    folds = {bounds.partition_id: TailFold(known_open=known.get(bounds.partition_id, ())) for bounds in plan.bounds}
    for task, receipt in zip(plan.tasks, receipts, strict=True):
        if task.window_start == NO_WINDOW:
            folds.pop(task.partition_id, None)
        elif receipt.tail is not None:
            folds[task.partition_id].add(receipt.tail)
    tails = {partition_id: fold.of_partition() for partition_id, fold in folds.items()}
    unknown = _goes_on(plan) if known_open is None else frozenset()
    return {each: of_unknown_beginning(tail) if each in unknown else tail for each, tail in tails.items()}


def _goes_on(plan: CopyPlan) -> frozenset[PartitionId]:
    """The partitions of which more was there before the plan begins to copy."""
    return frozenset(each.partition_id for each in plan.bounds if plan.starts.get(each.key, 0) > each.log_start)
