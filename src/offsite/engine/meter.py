"""Figures of a running task: counted by the task's code, read by the runner of the task.

One task runs at a time in a process, so the meter belongs to the process. Counting outside a run is harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from offsite.log.chunk import Chunk, Gap, Hole

ItemT = TypeVar("ItemT", bound=Chunk | Hole | Gap)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterReading:
    """Figures of a task. `moved_bytes`, `records`: moved by the task. `throttled_ms`: pauses asked for by cluster
    quotas. `limited_ms`: pauses for offsite's own limits."""

    moved_bytes: int = 0
    records: int = 0
    throttled_ms: int = 0
    limited_ms: int = 0

    def __add__(self, other: MeterReading) -> MeterReading:
        return MeterReading(
            moved_bytes=self.moved_bytes + other.moved_bytes,
            records=self.records + other.records,
            throttled_ms=self.throttled_ms + other.throttled_ms,
            limited_ms=self.limited_ms + other.limited_ms,
        )


OnReading = Callable[[MeterReading], None]


class Meter:
    def __init__(self) -> None:
        self._reading = MeterReading()
        self._listener: OnReading | None = None

    def start(self, listener: OnReading | None = None) -> None:
        """Begin a task: start from zero, and pass every new reading to `listener`."""
        self._reading, self._listener = MeterReading(), listener

    def count(self, *, moved_bytes: int, records: int) -> None:
        """Add to the figures of the running task. Cheap enough for every chunk, too costly for every record."""
        self._add(MeterReading(moved_bytes=moved_bytes, records=records))

    def count_items(self, items: Iterable[ItemT]) -> Iterator[ItemT]:
        """Yield the items unchanged. A chunk counts as moved when the caller asks for the next item: the chunk's bytes,
        and the records of all batches, whatever became of them."""
        for item in items:
            yield item
            if isinstance(item, Chunk):
                self.count(moved_bytes=len(item.data), records=sum(h.record_count for h in item.batches))

    def throttle(self, pause_ms: int) -> None:
        """Add a pause of `pause_ms` asked for by a quota, before the pause."""
        self._add(MeterReading(throttled_ms=pause_ms))

    def limit(self, pause_ms: int) -> None:
        """Add a pause of `pause_ms` for offsite's own limit, before the pause."""
        self._add(MeterReading(limited_ms=pause_ms))

    def _add(self, more: MeterReading) -> None:
        self._reading += more
        if self._listener is not None:
            self._listener(self._reading)

    def read(self) -> MeterReading:
        """Return the figures since `start`."""
        return self._reading


_process_meter = Meter()
start, count, count_items, read, throttle, limit = (
    _process_meter.start,
    _process_meter.count,
    _process_meter.count_items,
    _process_meter.read,
    _process_meter.throttle,
    _process_meter.limit,
)
