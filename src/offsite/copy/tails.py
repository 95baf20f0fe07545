"""The tails of the ranges that were copied, joined to those of their partitions. Pure.

A task sees its own range: where a transaction began before it, and how one goes on behind it, others saw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offsite.copy.backup import BackupReceipt
from offsite.copy.plan import NO_WINDOW, CopyPlan
from offsite.log.transaction_tail import PartitionTail, TailFold
from offsite.log.transactions import OpenTransaction
from offsite.repository.commit import PartitionId


def joined_tails(
    plan: CopyPlan,
    receipts: Sequence[BackupReceipt],
    *,
    known_open: Mapping[PartitionId, Sequence[OpenTransaction]],
) -> dict[PartitionId, PartitionTail]:
    """The tail of each partition of `plan`: what one pass over all that was copied of it would find.

    `receipts`: of every task, in the order of `plan.tasks`. `known_open`: the transactions that are open where the plan
    begins to copy, from the run before; in what order does not matter. A partition without tasks keeps them. A
    partition with tasks whose tail was not wanted is left out: nothing is known of it.
    """
    folds = {
        bounds.partition_id: TailFold(known_open=known_open.get(bounds.partition_id, ())) for bounds in plan.bounds
    }
    for task, receipt in zip(plan.tasks, receipts, strict=True):
        if task.window_start == NO_WINDOW:
            folds.pop(task.partition_id, None)
        elif receipt.tail is not None:
            folds[task.partition_id].add(receipt.tail)
    return {partition_id: fold.of_partition() for partition_id, fold in folds.items()}
