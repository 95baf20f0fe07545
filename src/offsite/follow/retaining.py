"""Applies retention in a run that follows: planned between rounds, a moment at a time, and carried out in a single
commit.

Retention never ends a round. A failure is logged, and tried again later. The backup continues during planning: the
finished plan is carried over to the newest state, and newer points stay.
"""

from __future__ import annotations

from collections.abc import Generator

from offsite.kafka.cluster import Cluster
from offsite.model.clock import Clock
from offsite.model.errors import CommitLost, Damaged, OffsiteError, Refused, StoreDenied
from offsite.model.journal import decided, noted, warned
from offsite.repository.backup import Backup
from offsite.repository.state import BackupState
from offsite.upkeep.retention.apply import carry_out
from offsite.upkeep.retention.carried import carry_to
from offsite.upkeep.retention.plan import RetentionPlan, retention_plan_steps
from offsite.upkeep.retention.policy import RetentionPolicy
from offsite.upkeep.retention.told_settings import read_cluster_retention

RETAIN_EVERY_S = 3600.0
"""Seconds from the end of a retention to the next."""
RETRY_S = 600.0
"""Seconds after a failure that may pass, or after another writer was first."""
STEP_S = 0.5
"""Approximate seconds of planning between two rounds."""


class Retaining:
    """Deletes points outside of `policy`, again and again; does nothing where `policy` is None."""

    def __init__(self, policy: RetentionPolicy | None, *, cluster: Cluster, clock: Clock, every_s: float) -> None:
        self._policy, self._cluster, self._clock = policy, cluster, clock
        self._every_s = every_s
        self._plan: Generator[None, None, RetentionPlan] | None = None
        self._next_s = clock.monotonic_s()

    def step(self, backup: Backup, state: BackupState) -> BackupState | None:
        """Continue for a moment, if due. `state` is the newest state. Returns the state with a commit of the step, if
        any. Raises no `OffsiteError`."""
        if self._policy is None or (self._plan is None and self._clock.monotonic_s() < self._next_s):
            return None
        try:
            plan = self._planned(backup, state, self._policy)
            return None if plan is None else self._carry_out(backup, plan, state)
        except CommitLost as error:  # a pin, a compaction, a new restore: the next plan knows them
            decided("retention_overtaken", commit=state.seq, error=error.id, why=error.message)
            self._end(min(RETRY_S, self._every_s))
            return None
        except OffsiteError as error:
            warned("retention_failed", error=error.id, why=error.message)
            if isinstance(error, Damaged):
                backup.on_damage(error.message)
            is_lasting = isinstance(error, StoreDenied | Damaged | Refused)
            self._end(self._every_s if is_lasting else min(RETRY_S, self._every_s))
            return None

    def _planned(self, backup: Backup, state: BackupState, policy: RetentionPolicy) -> RetentionPlan | None:
        """The plan when ready, else None."""
        if self._plan is None:
            recorded_settings = read_cluster_retention(self._cluster.admin, backup, state) if policy.mirrors else {}
            self._plan = retention_plan_steps(backup, policy, clock=self._clock, cluster_retention=recorded_settings)
        until_s = self._clock.monotonic_s() + STEP_S
        try:
            while self._clock.monotonic_s() < until_s:
                next(self._plan)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        return None

    def _carry_out(self, backup: Backup, plan: RetentionPlan, state: BackupState) -> BackupState | None:
        carried = carry_to(plan, state)
        if carried is None:
            noted("retention_overtaken", commit=state.seq)
            self._end(0.0)
            return None
        applied = carry_out(backup, carried, base=state)
        self._end(self._every_s)
        return None if applied.commit is None else applied.state

    def _end(self, rest_s: float) -> None:
        self._plan, self._next_s = None, self._clock.monotonic_s() + rest_s
