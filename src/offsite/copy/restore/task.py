"""Any partition of a restore, as one function for the workers: topics of both offset modes run together."""

from __future__ import annotations

from typing import TypeAlias

from offsite.copy.restore.preserve.copy import PreserveTask, restore_partition_preserving
from offsite.copy.restore.translate import RestoreEnds, RestoreReceipt, RestoreTask, restore_partition

AnyRestoreTask: TypeAlias = RestoreTask | PreserveTask


def restore_any_partition(task: AnyRestoreTask, *, ends: RestoreEnds) -> RestoreReceipt:
    """Write the partition in the way of its task. Raises what the function for the task's mode raises."""
    if isinstance(task, PreserveTask):
        return restore_partition_preserving(task, ends=ends)
    return restore_partition(task, ends=ends)
