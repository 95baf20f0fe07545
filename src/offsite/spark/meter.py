"""What a running task has moved so far: counted by the task's code, read by whatever runs the task.

One task runs at a time in a process, so the meter belongs to the process. Counting outside a run is harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from offsite.log.chunk import Chunk, Gap, Hole

ItemT = TypeVar("ItemT", bound=Chunk | Hole | Gap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Figures of a task: `moved_bytes` and `records` that it moved, `throttled_ms`, the time that quotas of the cluster
    asked it to pause, and `limited_ms`, the time that limits of our own did."""

    moved_bytes: int = 0
    records: int = 0
    throttled_ms: int = 0
    limited_ms: int = 0

    def __add__(self, other: Reading) -> Reading:
        return Reading(
            moved_bytes=self.moved_bytes + other.moved_bytes,
            records=self.records + other.records,
            throttled_ms=self.throttled_ms + other.throttled_ms,
            limited_ms=self.limited_ms + other.limited_ms,
        )


OnReading = Callable[[Reading], None]


class Meter:
    def __init__(self) -> None:
        self._reading = Reading()
        self._listener: OnReading | None = None

    def start(self, listener: OnReading | None = None) -> None:
        """Begin a task: from zero, with each new reading told to `listener`."""
        self._reading, self._listener = Reading(), listener

    def count(self, *, moved_bytes: int, records: int) -> None:
        """Add to what the running task has moved. Cheap enough for each chunk, too costly for each record."""
        self._add(Reading(moved_bytes=moved_bytes, records=records))

    def counted(self, items: Iterable[ItemT]) -> Iterator[ItemT]:
        """The same items; each chunk counts as moved when the next item is asked for: its bytes, and the records of all
        its batches, whatever became of them."""
        for item in items:
            yield item
            if isinstance(item, Chunk):
                self.count(moved_bytes=len(item.data), records=sum(h.record_count for h in item.batches))

    def throttle(self, pause_ms: int) -> None:
        """Add a pause of `pause_ms` that a quota asks for, before it is taken."""
        self._add(Reading(throttled_ms=pause_ms))

    def limit(self, pause_ms: int) -> None:
        """Add a pause of `pause_ms` that a limit of our own asks for, before it is made."""
        self._add(Reading(limited_ms=pause_ms))

    def _add(self, more: Reading) -> None:
        self._reading += more
        if self._listener is not None:
            self._listener(self._reading)

    def read(self) -> Reading:
        """What the task has moved since `start`."""
        return self._reading


_process_meter = Meter()
start, count, counted, read, throttle, limit = (
    _process_meter.start,
    _process_meter.count,
    _process_meter.counted,
    _process_meter.read,
    _process_meter.throttle,
    _process_meter.limit,
)
