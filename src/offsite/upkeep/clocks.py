"""The guard of every deletion by age: the local machine's clock and the store's must roughly agree."""

from __future__ import annotations

from offsite.model.clock import MOST_APART_MS, Clock
from offsite.model.errors import ClocksDiffer
from offsite.model.units import format_duration, format_time


def check_clocks(store_ms: int, clock: Clock, *, place: str) -> int:
    """Return `store_ms`, the time of the store at `place`, if `clock` roughly agrees. Raises `ClocksDiffer`."""
    local_ms = clock.now_ms()
    if abs(store_ms - local_ms) > MOST_APART_MS:
        apart = format_duration(abs(store_ms - local_ms) / 1000)
        raise ClocksDiffer(
            f"the clock of {place} says {format_time(store_ms)}, and the clock of this machine says "
            f"{format_time(local_ms)}: the difference is {apart}, so one clock is wrong",
            hint="correct the wrong clock; nothing was deleted",
        )
    return store_ms
