"""The stamps of participants in what is copied: where the first record behind a checkpoint stands, and whether all
records of the window have one.

Only topics that take part are looked at: their records have to be decoded, which the copy itself never does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from offsite.copy.plan import CopyPlan, CopyTask, PositionKey, StampWindow
from offsite.log.batch import BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.records.batch_records import iterate
from offsite.log.records.record import Record
from offsite.participant.number import Form, marker_of, number_of, stamp_of

NONE_BEHIND = -1


class EpochOffset(NamedTuple):
    """An offset, and the leader epoch that it was told in; -1: not known."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StampWindows:
    """Checkpoint `checkpoint` was opened in `control_topic` to the participants of some topics, in `form`: by markers
    each partition got one. `starts`: of each of their partitions the high watermark that was read before the opening,
    and in which leader epoch: no record below it can be behind the checkpoint, but one of a later epoch. `is_heard`:
    somebody is known who has to have heard of it. `doubts`: why what was stamped may not prove anything, besides."""

    checkpoint: int
    form: Form
    control_topic: str
    is_heard: bool = True
    doubts: tuple[str, ...] = ()
    starts: Mapping[PositionKey, EpochOffset] = field(default_factory=dict)

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(topic for topic, _, _ in self.starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStamps:
    """Of one stretch of a log, from the window's beginning on: the offset of the first record whose stamp or marker is
    that of the checkpoint or higher (`NONE_BEHIND`: there is none), and the highest number of all these; whether there
    is data at all, and data without a stamp of the checkpoint's form and control topic, on either side of it."""

    first: int = NONE_BEHIND
    number: int = 0
    has_data: bool = False
    has_unstamped: bool = False

    def then(self, following: SeenStamps) -> SeenStamps:
        """What one pass over this stretch and the `following` one would see."""
        begins = self if self.first != NONE_BEHIND else following
        return SeenStamps(
            first=begins.first,
            number=max(self.number, following.number),
            has_data=self.has_data or following.has_data,
            has_unstamped=self.has_unstamped or following.has_unstamped,
        )


class StampFold:
    """Looks at the batches of one range of `topic`, in order; the last one may reach past the range, and is looked at
    here alone. Records before the window are not decoded: none of them can be behind the checkpoint."""

    def __init__(self, topic: str, window: StampWindow) -> None:
        self._topic, self._window = topic, window
        self.seen = SeenStamps()

    def look(self, data: Buffer, batches: Iterable[BatchHeader]) -> None:
        """Decode the batches that reach into the window. Raises `DamagedBatch`."""
        for header in batches:
            start = 0 if self._is_later(header) else self._window.start
            if header.next_offset > start and not header.is_control:
                for record in iterate(header.view(data), header):
                    if record.offset >= start:
                        self.seen = self.seen.then(self._of(record))

    def _is_later(self, header: BatchHeader) -> bool:
        """Whether it was written after the window's beginning was told, wherever it stands."""
        return header.leader_epoch > self._window.leader_epoch >= 0

    def _of(self, record: Record) -> SeenStamps:
        number = number_of(record.headers, self._topic, self._window.control_topic)
        is_behind = number >= self._window.checkpoint
        is_data = marker_of(record.key, record.value, record.headers, self._topic) is None
        return SeenStamps(
            first=record.offset if is_behind else NONE_BEHIND,
            number=number if is_behind else 0,
            has_data=is_data,
            has_unstamped=is_data and not self._is_stamped(record),
        )

    def _is_stamped(self, record: Record) -> bool:
        """Whether whoever wrote it hears of the checkpoint."""
        stamp, window = stamp_of(record.headers, self._topic), self._window
        return stamp is not None and (stamp.form, stamp.control_topic) == (window.form, window.control_topic)


def fold_of(task: CopyTask) -> StampFold | None:
    """The fold of a task; None if its topic does not take part."""
    return None if task.stamps is None else StampFold(task.range.topic, task.stamps)


def with_stamps(plan: CopyPlan, windows: StampWindows) -> CopyPlan:
    """`plan` whose tasks look for stamps in these windows."""
    return replace(plan, tasks=tuple(_with_stamps(plan.tasks, windows)))


def _with_stamps(tasks: Iterable[CopyTask], windows: StampWindows) -> Iterator[CopyTask]:
    for each in tasks:
        start = windows.starts.get(each.key)
        yield each if start is None else replace(each, stamps=_window(windows, start))


def _window(windows: StampWindows, start: EpochOffset) -> StampWindow:
    return StampWindow(
        checkpoint=windows.checkpoint,
        form=windows.form,
        control_topic=windows.control_topic,
        start=start.offset,
        leader_epoch=start.leader_epoch,
    )


def joined_stamps(tasks: Sequence[CopyTask], seen: Sequence[SeenStamps | None]) -> Mapping[PositionKey, SeenStamps]:
    """What was seen of each partition with a window that was looked at. `seen`: of every task, in the order of `tasks`;
    those of one partition in the order of its log."""
    found: defaultdict[PositionKey, SeenStamps] = defaultdict(SeenStamps)
    for task, each in zip(tasks, seen, strict=True):
        if each is not None:
            found[task.key] = found[task.key].then(each)
    return dict(found)
