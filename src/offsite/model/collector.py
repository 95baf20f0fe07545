"""Python's garbage collector, kept from scanning passing records.

The collector scans all young objects after 700 new ones, and after a while all objects of the process. Records come and
go by the thousand and never form cycles: scanning them finds nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

__all__ = ["rare_collections"]

_YOUNG_OBJECTS = 20_000
"""More than the records in memory at once, which are a few thousand; few enough that cycles of further code cannot grow
large meanwhile."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect less often inside, in the whole process; restore the thresholds when the last block ends. A process with
    even rarer collections, or none, stays as it is."""
    _collector.slow_down()
    try:
        yield
    finally:
        _collector.speed_up()


class _Collector:
    """Counts the open blocks, in all threads, and remembers the thresholds before the first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before = (0, 0, 0)

    def slow_down(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                young, *older = self._before = gc.get_threshold()
                if 0 < young < _YOUNG_OBJECTS:
                    gc.set_threshold(_YOUNG_OBJECTS, *older)

    def speed_up(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                gc.set_threshold(*self._before)


_collector = _Collector()
