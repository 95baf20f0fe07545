"""Python's garbage collector, kept from looking at records while they pass by.

It looks at all young objects whenever 700 have come, and after a while at all objects of the process. Records come and
go by the thousand and never form circles: looking at them finds nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

__all__ = ["rare_collections"]

_YOUNG_OBJECTS = 20_000
"""More than the records that are in memory at once, which are a few thousand; few enough that circles of other code
cannot grow large meanwhile."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect less often inside, in the whole process; when nobody is inside any more, it is as it was. A process that
    collects even less often, or not at all, goes on so."""
    _collector.slow_down()
    try:
        yield
    finally:
        _collector.speed_up()


class _Collector:
    """How many are inside, in all threads, and what was set before the first of them."""

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
