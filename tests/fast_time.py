"""Time that passes faster for offsite: patience of minutes ends within seconds. Sockets keep the machine's own time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from offsite.model.clock import SystemClock

SHORTEST_SLEEP_S = 0.02
"""A sleep is never cut below this (or its own length): brokers need their time, whatever the clock says."""
LONGEST_SLEEP_S = 600
"""No patience of ours is as long: a longer sleep is one that believed a broken number, and fails the test."""


@contextmanager
def fast_time(factor: float) -> Iterator[None]:
    """In this process every `SystemClock` runs so many times as fast; `now_ms` is left alone."""

    def monotonic_s(_: SystemClock) -> float:
        return time.monotonic() * factor

    def sleep(_: SystemClock, duration_s: float) -> None:
        assert 0 <= duration_s <= LONGEST_SLEEP_S, f"a sleep of {duration_s} s"
        time.sleep(max(duration_s / factor, min(duration_s, SHORTEST_SLEEP_S)))

    with mock.patch.object(SystemClock, "monotonic_s", monotonic_s), mock.patch.object(SystemClock, "sleep", sleep):
        yield
