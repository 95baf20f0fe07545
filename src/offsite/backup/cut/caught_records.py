"""Reads records at the moment of the readings, for applications with immediate deletion of their input.

An application that deletes committed records several times a second is always faster than a Spark job that starts after
the readings: unread records of its groups at the readings are gone before the copy. The driver therefore reads
partitions known for such deletions: up to the first known ends before the readings, and the rest up to the ends of the
last reading. The rest are the uncommitted records of the application, a small number.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from uuid import UUID

from offsite.backup.copy_plan import CopyTask, PartitionBounds
from offsite.cut.window import Ends
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.read_task import Item, ReadTask
from offsite.kafka.reader import PartitionReader
from offsite.log.range import Chunk, LogRange, PartitionId
from offsite.model.clock import SystemClock
from offsite.model.errors import OffsiteError
from offsite.model.journal import decided
from offsite.model.units import MIB

PARTITIONS_MAX = 256
"""Every partition costs one or two requests, in sequence, while the application continues."""
BYTES_MAX = 64 * MIB
"""Of all partitions together, in the driver's memory."""
TIME_MAX_S = 5.0
"""For all reading before and after the readings: anything longer comes too late anyway."""
PATIENCE_MAX_S = 1.0
"""For a partition without an answer: tasks wait for it."""


@dataclass(slots=True)
class _Caught:
    """The records read of a partition, from offset `start` to `end`."""

    bounds: PartitionBounds
    start: int
    end: int
    items: list[Item] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtRange:
    """All items read of a range, as a reader yields them."""

    range: LogRange
    items: Sequence[Item]


class CaughtRecords:
    """The records of some partitions from the end of the backup to an end that rises.

    The records wait in memory until the pass writes them, like the records of any task. Partitions and bytes are
    bounded. Excess partitions are left to the tasks.
    """

    def __init__(self, admin: ClusterAdmin, starts: Mapping[PartitionId, int]) -> None:
        """`starts`: the next offset to copy of every partition to catch, as far as known."""
        self._admin, self._starts, self._clock = admin, starts, SystemClock()
        self._caught: dict[PartitionId, _Caught] = {}
        self._left_bytes = BYTES_MAX

    def begin(self, bounds: Collection[PartitionBounds]) -> None:
        """Read the partitions up to the ends in `bounds`."""
        began_s = self._clock.monotonic_s()
        for partition in bounds:
            start = max(self._starts.get(partition.partition_id, 0), partition.log_start)
            on_disk = max(1, partition.end - partition.log_start)
            pending_bytes = partition.size_bytes * (partition.end - start) // on_disk
            if partition.partition_id in self._starts and start <= partition.end and pending_bytes <= self._left_bytes:
                self._caught[partition.partition_id] = _Caught(bounds=partition, start=start, end=start)
                self._read(partition.partition_id, partition.end)
            if self._clock.monotonic_s() - began_s > TIME_MAX_S:
                return

    def read_to(self, ends: Ends) -> None:
        """Read the rest up to the ends of the last reading."""
        began_s = self._clock.monotonic_s()
        for partition_id in list(self._caught):
            if self._clock.monotonic_s() - began_s > TIME_MAX_S:
                del self._caught[partition_id]  # its caught records end before the readings
            else:
                self._read(partition_id, ends.get(partition_id, 0))

    def of(self, tasks: Sequence[CopyTask]) -> dict[int, CaughtRange]:
        """The caught ranges of `tasks`, by task number. A partition that the plan cuts into several tasks, or begins
        elsewhere, is left to the tasks."""
        ranges = {}
        for number, task in enumerate(tasks):
            caught = self._caught.get(task.partition_id)
            if caught is not None and (task.range.start, task.range.end) == (caught.start, caught.end):
                ranges[number] = CaughtRange(range=task.range, items=caught.items)
        return ranges

    @cached_property
    def _reader(self) -> PartitionReader:
        return self._admin.reader(patience_max_s=PATIENCE_MAX_S)

    def _read(self, partition_id: PartitionId, end: int) -> None:
        caught = self._caught[partition_id]
        if end <= caught.end:
            return
        why = ""
        try:
            for item in self._reader.read_task(_reading(caught, end)):
                self._left_bytes -= len(item.data) if isinstance(item, Chunk) else 0
                caught.items.append(_kept(item))
                if self._left_bytes < 0:
                    why = f"the caught records of all partitions would exceed {BYTES_MAX} bytes"
                    break
        except OffsiteError as error:
            why = error.message
        caught.end = end
        if why:
            decided("not_caught", why=why, topic=caught.bounds.topic, partition=caught.bounds.partition)
            self._left_bytes += sum(len(item.data) for item in caught.items if isinstance(item, Chunk))
            del self._caught[partition_id]


def _reading(caught: _Caught, end: int) -> ReadTask:
    """Make the task as `backup.copy` would read the range."""
    bounds, is_first = caught.bounds, caught.end == caught.start
    return ReadTask(
        range=LogRange(topic=bounds.topic, partition=bounds.partition, start=caught.end, end=end),
        topic_id=UUID(bounds.topic_id) if bounds.topic_id else None,
        planned_epoch=bounds.leader_epoch,
        was_compacted=bounds.was_compacted,
        owns_start=is_first,
        reach_back=is_first,
    )


def _kept(item: Item) -> Item:
    """Copy the item out of the reader's buffer, which the reader uses again."""
    if not isinstance(item, Chunk):
        return item
    return Chunk(data=memoryview(bytes(item.data)), batches=list(item.batches))
