"""Reads the status of a repository again and again, in a thread of its own, and keeps the newest: whoever shows several
repositories waits for none.
"""

from __future__ import annotations

import threading

from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.model.journal import failed, safe_line, safe_trace
from offsite.model.units import format_duration
from offsite.overview.several import RepositoryReading
from offsite.overview.status import Status, read_status
from offsite.serve.site import Site

LATE_S = 30.0
"""A reading that takes longer is told. It goes on."""
_RENEWED_S = 5.0
"""A value that somebody looks at is read again if it is older."""


class RepositoryWatch:
    """The newest status of one repository. One reading is made at a time."""

    def __init__(self, site: Site, clock: Clock) -> None:
        self.site, self._clock = site, clock
        self._status: Status | None = None
        self._problem = ""
        self._read_s = self._began_s = float("-inf")
        self._is_reading = False
        self._is_wanted = threading.Event()
        self._lock = threading.Lock()

    def run(self) -> None:
        """Read for ever: at each interval of the site, and soon after somebody has looked."""
        while True:
            self.look()
            self._is_wanted.wait(self.site.settings.interval_s)
            self._is_wanted.clear()

    def look(self) -> None:
        """Read once. A failure is told to readers, and never raised."""
        with self._lock:
            self._began_s, self._is_reading = self._clock.monotonic_s(), True
        status, problem = self._read()
        with self._lock:
            self._is_reading, self._problem = False, problem
            if status is not None:
                self._status, self._read_s = status, self._began_s

    def _read(self) -> tuple[Status | None, str]:
        try:
            return read_status(self.site.repository()), ""
        except OffsiteError as error:
            return None, f"{error.id}: {error.message}"
        except Exception as error:  # noqa: BLE001  # the next reading may succeed, and nobody else restarts the watch
            failed("repository_look", why=safe_line(error), trace=safe_trace(error), repository=self.site.settings.name)
            return None, "a mistake of offsite; see the log"

    def renew(self) -> None:
        """Have it read again soon, if what is known is not fresh: somebody looks."""
        if not self._is_reading and self._clock.monotonic_s() - self._began_s > _RENEWED_S:
            self._is_wanted.set()

    def reading(self) -> RepositoryReading:
        """What is known now, beside the newest look at the source. Waits for nothing."""
        now_s, watch = self._clock.monotonic_s(), self.site.watch
        with self._lock:
            status, read_s, problem = self._status, self._read_s, self._problem or self._late(now_s)
        return RepositoryReading(
            name=self.site.settings.name,
            place=self.site.settings.repo,
            status=status if status is None or watch is None else status.beside(watch.comparison),
            age_s=0.0 if status is None else max(0.0, now_s - read_s),
            problem=problem,
        )

    def _late(self, now_s: float) -> str:
        took_s = now_s - self._began_s if self._is_reading else 0.0
        return f"the reading that began {format_duration(took_s)} ago has not ended" if took_s > LATE_S else ""
