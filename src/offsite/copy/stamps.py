"""The stamps of participants in what is copied: where the first record behind a checkpoint stands, and whether all
records of the window have one.

Only topics that take part are looked at: their records have to be decoded, which the copy itself never does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from offsite.copy.plan import NO_WINDOW, CopyPlan, CopyTask, PositionKey
from offsite.log.batch import BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.records.batch_records import iterate
from offsite.log.records.record import Record
from offsite.participant.number import marker_of, number_of, stamp_of

NONE_BEHIND = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StampWindows:
    """Checkpoint `checkpoint` was opened to the participants of some topics. `starts`: of each of their partitions the
    high watermark that was read before the opening, so no record below it can be behind the checkpoint. `has_markers`:
    each of them got a marker of the checkpoint. `is_heard`: somebody is known who has to have heard of it."""

    checkpoint: int
    has_markers: bool = False
    is_heard: bool = True
    starts: Mapping[PositionKey, int] = field(default_factory=dict)

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(topic for topic, _, _ in self.starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStamps:
    """Of one stretch of a log, from the window's beginning on: the offset of the first record whose stamp or marker is
    that of the checkpoint or higher (`NONE_BEHIND`: there is none), and the highest number of all these; whether there
    is data at all, and data without a stamp, on either side of it."""

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
    """Looks at the batches of one range, in order; the last one may reach past the range, and is looked at here alone.
    `window_start`: records below are not looked at; it is at most the high watermark before the checkpoint was opened,
    so none below can be behind it."""

    def __init__(self, *, checkpoint: int, window_start: int) -> None:
        self._checkpoint, self._start = checkpoint, window_start
        self.seen = SeenStamps()

    def look(self, data: Buffer, batches: Iterable[BatchHeader]) -> None:
        """Decode the batches that reach into the window. Raises `DamagedBatch`."""
        for header in batches:
            if header.next_offset > self._start and not header.is_control:
                for record in iterate(header.view(data), header):
                    if record.offset >= self._start:
                        self.seen = self.seen.then(self._of(record))

    def _of(self, record: Record) -> SeenStamps:
        number = number_of(record.headers)
        is_behind, is_data = number >= self._checkpoint, marker_of(record.headers) is None
        return SeenStamps(
            first=record.offset if is_behind else NONE_BEHIND,
            number=number if is_behind else 0,
            has_data=is_data,
            has_unstamped=is_data and stamp_of(record.headers) is None,
        )


def fold_of(task: CopyTask) -> StampFold | None:
    """The fold of a task; None if its topic does not take part, or all of its range lies before the window."""
    if not task.checkpoint or task.range.end <= task.stamps_start:
        return None
    return StampFold(checkpoint=task.checkpoint, window_start=task.stamps_start)


def with_stamps(plan: CopyPlan, windows: StampWindows) -> CopyPlan:
    """`plan` whose tasks look for stamps in these windows."""
    return replace(plan, tasks=tuple(_with_stamps(plan.tasks, windows)))


def _with_stamps(tasks: Iterable[CopyTask], windows: StampWindows) -> Iterator[CopyTask]:
    for each in tasks:
        start = windows.starts.get(each.key, NO_WINDOW)
        yield each if start == NO_WINDOW else replace(each, checkpoint=windows.checkpoint, stamps_start=start)


def joined_stamps(tasks: Sequence[CopyTask], seen: Sequence[SeenStamps | None]) -> Mapping[PositionKey, SeenStamps]:
    """What was seen of each partition with a window that was looked at. `seen`: of every task, in the order of `tasks`;
    those of one partition in the order of its log."""
    found: defaultdict[PositionKey, SeenStamps] = defaultdict(SeenStamps)
    for task, each in zip(tasks, seen, strict=True):
        if each is not None:
            found[task.key] = found[task.key].then(each)
    return dict(found)
