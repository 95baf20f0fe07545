"""Deletes leftovers of runs that never ended, in a run that follows: once a day, a moment between rounds, where the
backup deletes at all. Never ends a round. A failure is logged, and tried again the next day."""

from __future__ import annotations

from collections.abc import Generator

from offsite.model.clock import Clock
from offsite.model.errors import Damaged, OffsiteError
from offsite.model.journal import warned
from offsite.repository.backup import Backup
from offsite.upkeep.collection.leftovers_run import LeftoversResult, leftover_steps

REST_S = 24 * 3600.0
"""Seconds from the end of a pass to the next: a pass may read all commits."""


class Tidying:
    """Deletes leftovers, pass after pass; does nothing unless `is_wanted`."""

    def __init__(self, *, is_wanted: bool, clock: Clock) -> None:
        self._is_wanted, self._clock = is_wanted, clock
        self._pass: Generator[None, None, LeftoversResult] | None = None
        self._next_s = clock.monotonic_s() + REST_S

    def step(self, backup: Backup) -> None:
        """Do a step, if due. Raises no `OffsiteError`."""
        if not self._is_wanted or (self._pass is None and self._clock.monotonic_s() < self._next_s):
            return
        self._pass = self._pass or leftover_steps(backup, clock=self._clock)
        try:
            next(self._pass)
        except StopIteration:
            self._end()
        except OffsiteError as error:
            warned("leftovers_not_collected", error=error.id, why=error.message)
            if isinstance(error, Damaged):
                backup.on_damage(error.message)
            self._end()

    def _end(self) -> None:
        self._pass, self._next_s = None, self._clock.monotonic_s() + REST_S
