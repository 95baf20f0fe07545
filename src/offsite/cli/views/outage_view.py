"""What people see of an outage that a following run waits out: a line when it begins, one a minute, one at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsite.cli.output import note
from offsite.model.time import format_duration

if TYPE_CHECKING:
    from offsite.model.clock import Clock
    from offsite.services.outages import Outage

SHOWN_AGAIN_S = 60.0
"""Seconds between two lines about one outage."""


class OutageLines:
    """Told of outages (`services.outages.OnOutage`), prints lines on stderr."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_s = self._next_s = 0.0

    def __call__(self, outage: Outage | None) -> None:
        now_s = self._clock.monotonic_s()
        if outage is None:
            note(f"it works again, after {format_duration(now_s - self._began_s)}")
            return
        if outage.attempts == 1:
            self._began_s = self._next_s = now_s
        if now_s < self._next_s:
            return
        self._next_s = now_s + SHOWN_AGAIN_S
        lasted = f"for {format_duration(now_s - self._began_s)} now" if outage.attempts > 1 else "and trying again"
        note(f"waiting, {lasted}: [{outage.error.id}] {outage.error.message}")
        if outage.attempts == 1 and outage.error.hint:
            note(f"hint: {outage.error.hint}")
