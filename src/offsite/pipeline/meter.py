"""What a running task has moved so far: counted by the task's code, read by whatever runs the task.

One task runs at a time in a process, so the meter belongs to the process. Counting outside a run is harmless.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    moved_bytes: int = 0
    records: int = 0

    def plus(self, other: Reading) -> Reading:
        return Reading(moved_bytes=self.moved_bytes + other.moved_bytes, records=self.records + other.records)


OnReading = Callable[[Reading], None]

_reading = Reading()
_listener: OnReading | None = None


def count(*, moved_bytes: int, records: int) -> None:
    """Add to what the running task has moved. Cheap enough to call for each chunk, too dear for each record."""
    global _reading
    _reading = _reading.plus(Reading(moved_bytes=moved_bytes, records=records))
    if _listener is not None:
        _listener(_reading)


def start(listener: OnReading | None = None) -> None:
    """Begin a task: from zero, with each new reading told to `listener`."""
    global _reading, _listener
    _reading, _listener = Reading(), listener


def read() -> Reading:
    """What the task has moved since `start`."""
    return _reading
