"""Collects replaced objects in a run that follows: a small step after every round, and a rest when nothing is left.

Collection never ends a backup or delays it for long. A failure is logged, and tried again later.
"""

from __future__ import annotations

from collections.abc import Generator

from offsite.engine.runner import Runner
from offsite.model.clock import Clock
from offsite.model.errors import Damaged, OffsiteError, StoreDenied
from offsite.model.journal import warned
from offsite.repository.backup import Backup
from offsite.upkeep.collection.agreement import NOTHING_IN_FORCE, RetentionInForce
from offsite.upkeep.collection.run import CollectionResult, collection_steps

REST_S = 6 * 3600.0
"""Seconds between passes when a pass left nothing. A pass reads the data around everything that it deletes, so larger
passes pay off."""
RETRY_S = 600.0
"""Seconds after a failure that may pass."""


class Collecting:
    """Collects objects replaced more than `grace_s` seconds ago, pass after pass, and objects deleted under the rules
    `in_force`."""

    def __init__(
        self, *, runner: Runner, clock: Clock, grace_s: float, in_force: RetentionInForce = NOTHING_IN_FORCE
    ) -> None:
        self._in_force = in_force
        self._runner, self._clock, self._grace_ms = runner, clock, int(grace_s * 1000)
        self._rest_s = min(REST_S, max(1.0, grace_s))
        self._pass: Generator[None, None, CollectionResult] | None = None
        self._next_s = clock.monotonic_s()

    def step(self, backup: Backup) -> None:
        """Do a step if a step is due. Raises no `OffsiteError`."""
        if self._pass is None:
            if self._clock.monotonic_s() < self._next_s:
                return
            self._pass = collection_steps(
                backup, runner=self._runner, clock=self._clock, grace_ms=self._grace_ms, in_force=self._in_force
            )
        try:
            next(self._pass)
        except StopIteration as end:
            self._end(self._rest_s if end.value.is_last else 0.0)
        except OffsiteError as error:
            warned("collection_failed", error=error.id, why=error.message)
            if isinstance(error, Damaged):
                backup.on_damage(error.message)
            is_lasting = isinstance(error, StoreDenied | Damaged)  # neither mends itself, and every attempt reads anew
            self._end(REST_S if is_lasting else RETRY_S)

    def _end(self, rest_s: float) -> None:
        self._pass, self._next_s = None, self._clock.monotonic_s() + rest_s
