"""Joins the tails of copied ranges to the tails of partitions. Pure.

A task sees only its own range. Other tasks see where a transaction began before the range, and how it continues behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offsite.backup.copy import BackupReceipt
from offsite.backup.copy_plan import NO_WINDOW, CopyPlan
from offsite.log.transactions import OpenTransaction, PartitionTail, TailFold, with_unknown_beginnings
from offsite.repository.commit import PartitionId


def join_tails(
    plan: CopyPlan,
    receipts: Sequence[BackupReceipt],
    *,
    known_open: Mapping[PartitionId, Sequence[OpenTransaction]] | None,
) -> dict[PartitionId, PartitionTail]:
    """The tail of every partition of `plan`: the result of one pass over all copied data of the partition.

    `receipts`: of every task, in the order of `plan.tasks`. `known_open`: the transactions open at the start of the
    copy, from the previous run, in any order; a partition without tasks keeps its open transactions. None: unknown, and
    the first data seen of a transaction may be its middle. A partition with tasks but without a requested tail is left
    out: nothing is known of its end. If records are missing before the copy, the outcome of transactions open at the
    hole is unknown.
    """
    missing = {(hole.topic, hole.partition) for hole in plan.holes}
    open_at_start = {
        partition_id: transactions
        for partition_id, transactions in (known_open or {}).items()
        if (partition_id.topic, partition_id.partition) not in missing
    }
    folds = {
        bounds.partition_id: TailFold(known_open=open_at_start.get(bounds.partition_id, ())) for bounds in plan.bounds
    }
    for task, receipt in zip(plan.tasks, receipts, strict=True):
        if task.window_start == NO_WINDOW:
            folds.pop(task.partition_id, None)
        elif receipt.tail is not None:
            folds[task.partition_id].add(receipt.tail)
    tails = {partition_id: fold.partition_tail() for partition_id, fold in folds.items()}
    unknown = _goes_on(plan) if known_open is None else frozenset()
    return {
        partition_id: with_unknown_beginnings(tail) if partition_id in unknown else tail
        for partition_id, tail in tails.items()
    }


def _goes_on(plan: CopyPlan) -> frozenset[PartitionId]:
    """The partitions with data before the start of the copy."""
    return frozenset(bounds.partition_id for bounds in plan.bounds if plan.starts.get(bounds.key, 0) > bounds.log_start)
