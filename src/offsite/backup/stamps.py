"""The stamps of participants in copied records: the first record behind a checkpoint, and whether all records of the
window have a stamp.

Only topics of participants are inspected: their records have to be decoded, and the copy itself never decodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from offsite.backup.copy_plan import CopyPlan, CopyTask, StampWindow
from offsite.log.batch import BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.range import PartitionId
from offsite.log.records.batch_records import iterate
from offsite.log.records.record import Record
from offsite_participant.number import Form, marker_of, number_of, stamp_of

NONE_BEHIND = -1


class EpochOffset(NamedTuple):
    """An offset, and the leader epoch in which it was read; -1: unknown."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StampWindows:
    """Checkpoint `checkpoint`, opened in `control_topic` to the participants of some topics, by `form`: with markers,
    every partition got one. `starts`: for every partition the high watermark read before the opening, with its leader
    epoch; a record below the high watermark is not behind the checkpoint, unless of a later epoch. `is_heard`: at least
    one known participant must have heard of the checkpoint. `doubts`: further reasons why stamps may not prove
    anything."""

    checkpoint: int
    form: Form
    control_topic: str
    is_heard: bool = True
    doubts: tuple[str, ...] = ()
    starts: Mapping[PartitionId, EpochOffset] = field(default_factory=dict)

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(partition_id.topic for partition_id in self.starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedStamps:
    """The stamps of one stretch of a log, from the start of the window on. `first`: the offset of the first record with
    a stamp or marker of the checkpoint or higher (`NONE_BEHIND`: none); `number`: the highest number of such records.
    Also: whether the stretch has data, and data without a stamp of the checkpoint's form and control topic, on either
    side of the checkpoint."""

    first: int = NONE_BEHIND
    number: int = 0
    has_data: bool = False
    has_unstamped: bool = False

    def then(self, following: ObservedStamps) -> ObservedStamps:
        """The result of one pass over this stretch and the `following` stretch."""
        begins = self if self.first != NONE_BEHIND else following
        return ObservedStamps(
            first=begins.first,
            number=max(self.number, following.number),
            has_data=self.has_data or following.has_data,
            has_unstamped=self.has_unstamped or following.has_unstamped,
        )


class StampFold:
    """Inspects the batches of one range of `topic`, in order. The last batch may reach past the range, and is inspected
    only here. Records before the window are not decoded: none can be behind the checkpoint."""

    def __init__(self, topic: str, window: StampWindow) -> None:
        self._topic, self._window = topic, window
        self.observed = ObservedStamps()

    def observe(self, data: Buffer, batches: Iterable[BatchHeader]) -> None:
        """Decode the batches that reach into the window. Raises `DamagedBatch`."""
        for header in batches:
            start = 0 if self._is_later(header) else self._window.start
            if header.next_offset > start and not header.is_control:
                for record in iterate(header.view(data), header):
                    if record.offset >= start:
                        self.observed = self.observed.then(self._of(record))

    def _is_later(self, header: BatchHeader) -> bool:
        """Whether the batch was written after the start of the window was read, at any offset."""
        return header.leader_epoch > self._window.leader_epoch >= 0

    def _of(self, record: Record) -> ObservedStamps:
        number = number_of(record.headers, self._topic, self._window.control_topic)
        is_behind = number >= self._window.checkpoint
        is_data = marker_of(record.key, record.value, record.headers, self._topic) is None
        return ObservedStamps(
            first=record.offset if is_behind else NONE_BEHIND,
            number=number if is_behind else 0,
            has_data=is_data,
            has_unstamped=is_data and not self._is_stamped(record),
        )

    def _is_stamped(self, record: Record) -> bool:
        """Whether the writer of the record is notified of the checkpoint."""
        stamp, window = stamp_of(record.headers, self._topic), self._window
        return stamp is not None and (stamp.form, stamp.control_topic) == (window.form, window.control_topic)


def stamp_fold(task: CopyTask) -> StampFold | None:
    """The fold of a task; None for a topic without participants."""
    return None if task.stamps is None else StampFold(task.range.topic, task.stamps)


def with_stamps(plan: CopyPlan, windows: StampWindows) -> CopyPlan:
    """`plan` with tasks that look for stamps in `windows`."""
    return replace(plan, tasks=tuple(_with_stamps(plan.tasks, windows)))


def _with_stamps(tasks: Iterable[CopyTask], windows: StampWindows) -> Iterator[CopyTask]:
    for task in tasks:
        start = windows.starts.get(task.partition_id)
        yield task if start is None else replace(task, stamps=_window(windows, start))


def _window(windows: StampWindows, start: EpochOffset) -> StampWindow:
    return StampWindow(
        checkpoint=windows.checkpoint,
        form=windows.form,
        control_topic=windows.control_topic,
        start=start.offset,
        leader_epoch=start.leader_epoch,
    )


def join_stamps(
    tasks: Sequence[CopyTask], stamps: Sequence[ObservedStamps | None]
) -> Mapping[PartitionId, ObservedStamps]:
    """The observed stamps by partition, for partitions with a window. `stamps`: the results of all tasks, in the order
    of `tasks`, and for one partition in the order of its log."""
    by_partition: defaultdict[PartitionId, ObservedStamps] = defaultdict(ObservedStamps)
    for task, task_stamps in zip(tasks, stamps, strict=True):
        if task_stamps is not None:
            by_partition[task.partition_id] = by_partition[task.partition_id].then(task_stamps)
    return dict(by_partition)
