"""Passes the progress of a copy on, keeps the last figures, and notes how long no progress was made."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from offsite.engine.runner import OnProgress, RunProgress
from offsite.model.clock import Clock, Wait
from offsite.model.names import named

NAMED_MAX = 3
"""At most so many partitions in a line: a broker that leads thousands must not fill the screen."""


class LastProgress:
    """Passes progress on and remembers the last one. `wait` names the partitions whose records have not arrived."""

    def __init__(
        self, on_progress: OnProgress | None, *, clock: Clock, open_partitions: Callable[[], Sequence[str]]
    ) -> None:
        self._on_progress, self._clock, self._open_partitions = on_progress, clock, open_partitions
        self._last: RunProgress | None = None
        self.wait = Wait(self._nothing_came, since_s=math.inf)
        self.worker_peak_rss_bytes = 0
        self.throttled_s = 0.0

    def __call__(self, now: RunProgress) -> None:
        # The first report comes before Spark is up: no broker was asked before the second.
        if self._last is not None and (_moved(now) != _moved(self._last) or self.wait.since_s == math.inf):
            self.wait.since_s = self._clock.monotonic_s()
        self._last = now
        self.worker_peak_rss_bytes = max(self.worker_peak_rss_bytes, now.worker_peak_rss_bytes)
        self.throttled_s = now.throttled_s + now.limited_s
        if self._on_progress is not None:
            self._on_progress(now)

    def _nothing_came(self) -> str:
        partitions = self._open_partitions()
        if not partitions:
            return "all partitions are copied, but the Spark job has not ended"
        return f"no progress in {named(partitions, most=NAMED_MAX, of='partitions')}"


def _moved(progress: RunProgress) -> tuple[float, ...]:
    """Figures that change while any work is under way. A pause demanded by a rate limit counts as a change."""
    ended = progress.tasks_done, progress.tasks_failed
    return (*ended, progress.moved_bytes, progress.throttled_s, progress.limited_s)
