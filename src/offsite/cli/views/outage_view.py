"""Lines for people while a following run waits: at the beginning, every minute, and at the end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from offsite.cli.output import note
from offsite.model.units import format_duration

if TYPE_CHECKING:
    from offsite.backup.outages import Outage
    from offsite.model.clock import Clock
    from offsite.monitor.waiting import Waiting

SHOWN_AGAIN_S = 60.0
"""Seconds between two lines about an outage."""


class OutageLines:
    """Prints lines on stderr about long waits and outages (`services.outages.OnOutage`). Thread-safe: another thread
    than the waiting thread reports a wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began_s: float | None = None
        self._next_s = 0.0

    def __call__(self, outage: Outage | None) -> None:
        if outage is None:
            self.worked()
            return
        with self._lock:
            if self._is_due(since_s=self._clock.monotonic_s(), at_once=outage.attempts == 1):
                lasted = f"for {self._lasted()} now" if outage.attempts > 1 else "and trying again"
                note(f"waiting, {lasted}: [{outage.error.id}] {outage.error.message}")
                if outage.attempts == 1 and outage.error.hint:
                    note(f"hint: {outage.error.hint}")

    def waiting(self, waiting: Waiting) -> None:
        """Report a long wait: no error yet, and the first sign of most outages."""
        with self._lock:
            if self._is_due(since_s=self._clock.monotonic_s() - waiting.waited_s):
                note(f"waiting, for {self._lasted()} now: {waiting.subject}")

    def worked(self) -> None:
        """Report the end of a good round, or of an outage."""
        with self._lock:
            if self._began_s is not None:
                note(f"working again after {self._lasted()}")
                self._began_s = None

    def _is_due(self, *, since_s: float, at_once: bool = False) -> bool:
        """Whether a line is due about an event that began at `since_s`, unless an outage is already open."""
        now_s = self._clock.monotonic_s()
        is_new = self._began_s is None
        self._began_s = since_s if self._began_s is None else self._began_s
        if not is_new and not at_once and now_s < self._next_s:
            return False
        self._next_s = now_s + SHOWN_AGAIN_S
        return True

    def _lasted(self) -> str:
        return format_duration(self._clock.monotonic_s() - (self._began_s or 0.0))
