"""The guard of everything that deletes by age: this machine's clock and the store's must tell about the same time."""

from __future__ import annotations

from offsite.model.clock import MOST_APART_MS, Clock
from offsite.model.errors import ClocksDiffer
from offsite.model.time import format_duration, format_time


def check_clocks(store_ms: int, clock: Clock, *, place: str) -> int:
    """Give `store_ms`, the time of the store at `place`, if `clock` tells about the same. Raises `ClocksDiffer`."""
    local_ms = clock.now_ms()
    if abs(store_ms - local_ms) > MOST_APART_MS:
        apart = format_duration(abs(store_ms - local_ms) / 1000)
        raise ClocksDiffer(
            f"the clock of {place} says {format_time(store_ms)}, and that of this machine {format_time(local_ms)}: "
            f"{apart} apart, and one of them is wrong",
            hint="set the clock that is wrong; nothing was deleted",
        )
    return store_ms
