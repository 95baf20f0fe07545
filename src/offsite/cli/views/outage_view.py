"""What people see while a following run waits: a line when it begins, one a minute, one when it goes on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from offsite.cli.output import note
from offsite.model.time import format_duration

if TYPE_CHECKING:
    from offsite.model.clock import Clock
    from offsite.services.outages import Outage
    from offsite.services.waiting import Waiting

SHOWN_AGAIN_S = 60.0
"""Seconds between two lines about one outage."""


class OutageLines:
    """Told of waits that last and of outages (`services.outages.OnOutage`), prints lines on stderr. For several
    threads: of a wait another one tells than the one that waits."""

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
        """Take a wait that has lasted for a while: no error yet, and the first that is seen of most outages."""
        with self._lock:
            if self._is_due(since_s=self._clock.monotonic_s() - waiting.waited_s):
                note(f"waiting, for {self._lasted()} now: {waiting.subject}")

    def worked(self) -> None:
        """Take the end of a round that went well, or of an outage."""
        with self._lock:
            if self._began_s is not None:
                note(f"it works again, after {self._lasted()}")
                self._began_s = None

    def _is_due(self, *, since_s: float, at_once: bool = False) -> bool:
        """Whether a line is to be shown, of something that began at `since_s` if nothing is out already."""
        now_s = self._clock.monotonic_s()
        is_new = self._began_s is None
        self._began_s = since_s if self._began_s is None else self._began_s
        if not is_new and not at_once and now_s < self._next_s:
            return False
        self._next_s = now_s + SHOWN_AGAIN_S
        return True

    def _lasted(self) -> str:
        return format_duration(self._clock.monotonic_s() - (self._began_s or 0.0))
