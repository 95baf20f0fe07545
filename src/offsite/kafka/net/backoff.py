"""Waiting between attempts: jittered, growing, and bounded in time since the first failure in a row."""

from __future__ import annotations

import random

from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.model.journal import decided
from offsite.model.waits import Wait

# A rolling restart of a large cluster leaves a partition without leader for well under 120 s; beyond, a person must
# look.
LEADERLESS_MAX_S = 120.0
# A broker that has just started may not know its topics yet: absence counts only after 5 s.
MISSING_TOPIC_MAX_S = 5.0
_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 2.0
_MAX_DOUBLINGS = 6


class Backoff:
    """Allows attempts for `limit_s` after the first failure since construction or the last `reset()`."""

    def __init__(self, clock: Clock, *, limit_s: float = LEADERLESS_MAX_S) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self.reset()

    def reset(self) -> None:
        """Note progress: the next failure is a first failure."""
        self._attempts = 0
        self._deadline_s: float | None = None

    def wait(self, error: OffsiteError) -> None:
        """Sleep before another attempt, or raise `error` when the time is used up. Both write a line into the
        journal."""
        now_s = self._clock.monotonic_s()
        if self._deadline_s is None:
            self._deadline_s = now_s + self._limit_s
        failing_s = now_s - self._deadline_s + self._limit_s
        if now_s >= self._deadline_s:
            decided("gave_up", attempts=self._attempts, failing_s=failing_s, error=error.id, why=error.message)
            raise error
        longest_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** min(self._attempts, _MAX_DOUBLINGS))
        wait_s = random.uniform(longest_s / 2, longest_s)  # noqa: S311  (jitter, not cryptography)
        self._attempts += 1
        decided("retry", attempt=self._attempts, wait_s=wait_s, failing_s=failing_s, error=error.id, why=error.message)
        with Wait(lambda: f"[{error.id}] {error.message}", since_s=now_s - failing_s):
            self._clock.sleep(wait_s)
