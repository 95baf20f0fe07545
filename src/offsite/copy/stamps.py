"""The stamps of participants in what is copied: where the first record behind a checkpoint stands, and whether all
records of the window have one.

Only topics that take part are looked at: their records have to be decoded, which the copy itself never does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from offsite.copy.plan import CopyPlan, CopyTask
from offsite.log.batch import BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.records.batch_records import iterate
from offsite.log.records.record import Record
from offsite.participant.number import marker_of, number_of, stamp_of

NONE_BEHIND = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStamps:
    """Of one stretch of a log, from the window's beginning on: the offset and the number of the first record whose
    stamp or marker is that of the checkpoint or higher (`NONE_BEHIND`: there is none); whether there is data at all,
    and data without a stamp, on either side of it."""

    first: int = NONE_BEHIND
    number: int = 0
    has_data: bool = False
    has_unstamped: bool = False

    def then(self, following: SeenStamps) -> SeenStamps:
        """What one pass over this stretch and the `following` one would see."""
        begins = self if self.first != NONE_BEHIND else following
        return SeenStamps(
            first=begins.first,
            number=begins.number,
            has_data=self.has_data or following.has_data,
            has_unstamped=self.has_unstamped or following.has_unstamped,
        )


class StampFold:
    """Looks at the batches of one range, in order. `window_start`: records below are not looked at; it is at most the
    high watermark before the checkpoint was opened, so none below can be behind it."""

    def __init__(self, *, checkpoint: int, window_start: int, end: int) -> None:
        self._checkpoint, self._start, self._end = checkpoint, window_start, end
        self.seen = SeenStamps()

    def look(self, data: Buffer, batches: Iterable[BatchHeader]) -> None:
        """Decode the batches that reach into the window. Raises `DamagedBatch`."""
        for header in batches:
            if header.next_offset > self._start and not header.is_control:
                for record in iterate(header.view(data), header):
                    if self._start <= record.offset < self._end:
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
    if not task.checkpoint or task.range.end <= task.window_start:
        return None
    return StampFold(checkpoint=task.checkpoint, window_start=task.window_start, end=task.range.end)


def with_stamps(plan: CopyPlan, topics: AbstractSet[str], *, checkpoint: int) -> CopyPlan:
    """`plan` whose tasks of `topics` look for the stamps of `checkpoint`. Its tasks know where their windows begin."""
    tasks = (replace(each, checkpoint=checkpoint) if each.range.topic in topics else each for each in plan.tasks)
    return replace(plan, tasks=tuple(tasks))


def joined_stamps(
    tasks: Sequence[CopyTask], seen: Sequence[SeenStamps | None]
) -> Mapping[tuple[str, str, int], SeenStamps]:
    """What was seen of each partition with a window that was looked at, by (topic, topic id, partition). `seen`: of
    every task, in the order of `tasks`; those of one partition in the order of its log."""
    found: defaultdict[tuple[str, str, int], SeenStamps] = defaultdict(SeenStamps)
    for task, each in zip(tasks, seen, strict=True):
        if each is not None:
            key = task.range.topic, task.topic_id, task.range.partition
            found[key] = found[key].then(each)
    return dict(found)
