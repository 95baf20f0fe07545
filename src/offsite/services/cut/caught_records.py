"""Records that are read in the moment of the readings, because whoever reads them deletes them at once.

An application that deletes what it has committed, several times a second, is always faster than a Spark job that starts
after the readings: what its groups had not read at the readings is gone before it is copied. So the partitions that are
known for that are read by the driver: to the ends as they were told first, before the readings, and the rest to the
ends of the last reading. What is read then is what the application has not committed yet, which is little.

The records wait in memory until the pass writes them, like those of any task. Bounded in partitions and in bytes. What
does not fit is left to the tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from uuid import UUID

from offsite.copy.plan import CopyTask, PartitionBounds, PositionKey
from offsite.cut.window import Ends, PartitionKey
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.read_task import Item, ReadTask
from offsite.kafka.reader import PartitionReader
from offsite.log.chunk import Chunk
from offsite.log.range import LogRange
from offsite.model.clock import SystemClock
from offsite.model.errors import OffsiteError
from offsite.model.journal import decided
from offsite.model.size import MIB

PARTITIONS_MAX = 256
"""Each costs one or two requests, one after the other, while the application goes on."""
BYTES_MAX = 64 * MIB
"""Of all partitions together, in the driver's memory."""
TIME_MAX_S = 5.0
"""For all of it, before the readings and behind them: what takes longer comes too late anyway."""
PATIENCE_MAX_S = 1.0
"""For a partition that gives nothing: tasks wait for it."""


@dataclass(slots=True)
class _Caught:
    """What was read of one partition: from offset `start` to `end`."""

    bounds: PartitionBounds
    start: int
    end: int
    items: list[Item] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtRange:
    """All that was read of a range, as a reader hands it out."""

    range: LogRange
    items: Sequence[Item]


class CaughtRecords:
    """The records of some partitions between where the backup stands and an end that rises."""

    def __init__(self, admin: ClusterAdmin, starts: Mapping[PositionKey, int]) -> None:
        """`starts`: the next offset to copy of each partition that is to be caught, as far as it is known."""
        self._admin, self._starts, self._clock = admin, starts, SystemClock()
        self._caught: dict[PositionKey, _Caught] = {}
        self._left_bytes = BYTES_MAX

    def begin(self, bounds: Collection[PartitionBounds]) -> None:
        """Read the partitions to the ends that they have told."""
        began_s = self._clock.monotonic_s()
        for partition in bounds:
            start = max(self._starts.get(partition.key, 0), partition.log_start)
            on_disk = max(1, partition.end - partition.log_start)
            pending_bytes = partition.size_bytes * (partition.end - start) // on_disk
            if partition.key in self._starts and start <= partition.end and pending_bytes <= self._left_bytes:
                self._caught[partition.key] = _Caught(bounds=partition, start=start, end=start)
                self._read(partition.key, partition.end)
            if self._clock.monotonic_s() - began_s > TIME_MAX_S:
                return

    def read_to(self, ends: Ends) -> None:
        """Read the rest, to where the last reading ends."""
        began_s = self._clock.monotonic_s()
        for key in list(self._caught):
            if self._clock.monotonic_s() - began_s > TIME_MAX_S:
                del self._caught[key]  # what was caught of it ends before the readings
            else:
                self._read(key, ends.get(PartitionKey(*key), 0))

    def of(self, tasks: Sequence[CopyTask]) -> dict[int, CaughtRange]:
        """What was caught of each of `tasks`, by its number. A partition that the plan cuts into several tasks, or
        begins elsewhere, is left to them."""
        found = {}
        for number, task in enumerate(tasks):
            caught = self._caught.get(task.key)
            if caught is not None and (task.range.start, task.range.end) == (caught.start, caught.end):
                found[number] = CaughtRange(range=task.range, items=caught.items)
        return found

    @cached_property
    def _reader(self) -> PartitionReader:
        return self._admin.reader(patience_max_s=PATIENCE_MAX_S)

    def _read(self, key: PositionKey, end: int) -> None:
        caught = self._caught[key]
        if end <= caught.end:
            return
        why = ""
        try:
            for item in self._reader.read_task(_reading(caught, end)):
                self._left_bytes -= len(item.data) if isinstance(item, Chunk) else 0
                caught.items.append(_kept(item))
                if self._left_bytes < 0:
                    why = f"more than {BYTES_MAX} bytes would have to be read at once"
                    break
        except OffsiteError as error:
            why = error.message
        caught.end = end
        if why:
            decided("not_caught", why=why, topic=caught.bounds.topic, partition=caught.bounds.partition)
            self._left_bytes += sum(len(item.data) for item in caught.items if isinstance(item, Chunk))
            del self._caught[key]


def _reading(caught: _Caught, end: int) -> ReadTask:
    """As the task of the range would read it: `copy.backup`."""
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
    """The reader uses its buffer again."""
    if not isinstance(item, Chunk):
        return item
    return Chunk(data=memoryview(bytes(item.data)), batches=list(item.batches))
