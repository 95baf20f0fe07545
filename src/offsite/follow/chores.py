"""The chores of a run that follows, in small steps between rounds. No chore ends a backup, or delays a round for long.
A failure is logged, and tried again later.

Collecting deletes replaced objects, and rests when nothing is left. Compacting and tidying work only where the
backup deletes at all: compacting takes some regions at a time, and leaves a region larger than a step, by name, to
`offsite compact run`; tidying deletes leftovers of runs that never ended, once a day. Retaining plans retention a
moment at a time, and carries it out in a single commit: the backup continues during planning, the finished plan is
carried over to the newest state, and newer points stay.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from offsite.engine.runner import Runner
from offsite.kafka.cluster import Cluster
from offsite.model.clock import Clock
from offsite.model.errors import CommitLost, Damaged, OffsiteError, Refused, StoreDenied
from offsite.model.journal import decided, noted, warned
from offsite.model.units import MIB
from offsite.repository.backup import Backup
from offsite.repository.state import BackupState
from offsite.upkeep.collection.agreement import NOTHING_IN_FORCE, RetentionInForce
from offsite.upkeep.collection.leftovers import LeftoversResult, leftover_steps
from offsite.upkeep.collection.run import CollectionResult, collection_steps
from offsite.upkeep.compaction.plan import CompactionRequest, first_regions, plan_compaction
from offsite.upkeep.compaction.regions import Region
from offsite.upkeep.compaction.run import compact
from offsite.upkeep.retention.apply import carry_out, carry_to
from offsite.upkeep.retention.plan import RetentionPlan, retention_plan_steps
from offsite.upkeep.retention.policy import RetentionPolicy
from offsite.upkeep.retention.topic_retention import read_cluster_retention

COLLECTING_REST_S = 6 * 3600.0
"""Seconds between passes when a pass left nothing. A pass reads the data around everything that it deletes, so larger
passes pay off."""
RETRY_S = 600.0
"""Seconds after a failure that may pass, or after another writer was first."""


class Collecting:
    """Collects objects replaced more than `grace_s` seconds ago, pass after pass, and objects deleted under the rules
    `in_force`."""

    def __init__(
        self, *, runner: Runner, clock: Clock, grace_s: float, in_force: RetentionInForce = NOTHING_IN_FORCE
    ) -> None:
        self._in_force = in_force
        self._runner, self._clock, self._grace_ms = runner, clock, int(grace_s * 1000)
        self._rest_s = min(COLLECTING_REST_S, max(1.0, grace_s))
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
            self._end(COLLECTING_REST_S if is_lasting else RETRY_S)

    def _end(self, rest_s: float) -> None:
        self._pass, self._next_s = None, self._clock.monotonic_s() + rest_s


STEP_BYTES = 256 * MIB
"""Raw bytes of the regions of a step: rounds of the backup wait for the step."""


class Compacting:
    """Compacts due regions every `every_s` seconds; does nothing unless `is_wanted`."""

    def __init__(self, *, is_wanted: bool, runner: Runner, clock: Clock, every_s: float) -> None:
        self._is_wanted, self._runner = is_wanted, runner
        self._clock, self._every_s = clock, every_s
        self._next_s = clock.monotonic_s() + every_s

    def step(self, backup: Backup, state: BackupState) -> BackupState | None:
        """Compact some regions of `state`, the newest state, if due. Returns the state with the commit of the step.
        Raises no `OffsiteError`."""
        if not self._is_wanted or self._clock.monotonic_s() < self._next_s:
            return None
        try:
            return self._compact(backup, state)
        except CommitLost as error:  # another writer committed first: repeated later
            decided("compaction_overtaken", commit=state.seq, error=error.id, why=error.message)
            self._next_s = self._clock.monotonic_s() + min(RETRY_S, self._every_s)
            return None
        except OffsiteError as error:
            warned("compaction_failed", error=error.id, why=error.message)
            if isinstance(error, Damaged):
                backup.on_damage(error.message)
            self._next_s = self._clock.monotonic_s() + min(RETRY_S, self._every_s)
            return None

    def _compact(self, backup: Backup, state: BackupState) -> BackupState | None:
        plan = plan_compaction(backup, CompactionRequest(), head=state)
        fitting = tuple(region for region in plan.regions if _fits(region))
        chosen = tuple(first_regions(fitting, STEP_BYTES))
        compacted = compact(backup, replace(plan, regions=chosen), runner=self._runner) if chosen else None
        is_rest = compacted is None or compacted.left_alone or len(chosen) == len(fitting)
        self._next_s = self._clock.monotonic_s() + (self._every_s if is_rest else 0.0)
        return None if compacted is None or compacted.state.seq == state.seq else compacted.state


def _fits(region: Region) -> bool:
    """Whether a region fits into a step. A region that does not fit is logged."""
    if region.raw_bytes <= STEP_BYTES:
        return True
    noted("region_too_large", what=str(region.partition), bytes=region.raw_bytes, hint="offsite compact run")
    return False


RETAIN_EVERY_S = 3600.0
"""Seconds from the end of a retention to the next."""
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


TIDYING_REST_S = 24 * 3600.0
"""Seconds from the end of a pass to the next: a pass may read all commits."""


class Tidying:
    """Deletes leftovers, pass after pass; does nothing unless `is_wanted`."""

    def __init__(self, *, is_wanted: bool, clock: Clock) -> None:
        self._is_wanted, self._clock = is_wanted, clock
        self._pass: Generator[None, None, LeftoversResult] | None = None
        self._next_s = clock.monotonic_s() + TIDYING_REST_S

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
        self._pass, self._next_s = None, self._clock.monotonic_s() + TIDYING_REST_S
