"""The chores of a run that follows, in small steps between rounds. No chore ends a backup, or delays a round for long.
A failure is logged, and tried again later.

Collecting deletes replaced objects, and rests when nothing is left. Compacting and tidying work only where the
backup deletes at all: compacting takes some regions at a time, and leaves a region larger than a step, by name, to
`offsite compact run`; tidying deletes leftovers of runs that never ended, once a day. Retaining plans retention a
moment at a time, and carries it out in a single commit: the backup continues during planning, the finished plan is
carried over to the newest state, and newer points stay.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

from offsite.engine.runner import Runner
from offsite.kafka.cluster import Cluster
from offsite.model.clock import Clock
from offsite.model.errors import CommitLost, Damaged, OffsiteError, Refused, StoreDenied
from offsite.model.journal import decided, noted, warned
from offsite.model.units import MIB
from offsite.repository.backup import Backup
from offsite.repository.state import BackupState
from offsite.upkeep.collection.agreement import NOTHING_IN_FORCE, RetentionInForce
from offsite.upkeep.collection.leftovers import leftover_steps
from offsite.upkeep.collection.run import collection_steps
from offsite.upkeep.compaction.plan import CompactionRequest, first_regions, plan_compaction
from offsite.upkeep.compaction.regions import Region
from offsite.upkeep.compaction.run import compact
from offsite.upkeep.retention.apply import carry_out, carry_to
from offsite.upkeep.retention.mirror import read_cluster_retention
from offsite.upkeep.retention.plan import RetentionPlan, retention_plan_steps
from offsite.upkeep.retention.policy import RetentionPolicy

COLLECTING_REST_S = 6 * 3600.0
"""Seconds between passes when a pass left nothing. A pass reads the data around everything that it deletes, so larger
passes pay off."""
RETRY_S = 600.0
"""Seconds after a failure that may pass, or after another writer was first."""
RETAIN_EVERY_S = 3600.0
"""Seconds from the end of a retention to the next."""
TIDYING_REST_S = 24 * 3600.0
"""Seconds from the end of a pass to the next: a pass may read all commits."""
STEP_BYTES = 256 * MIB
"""Raw bytes of the regions of a step: rounds of the backup wait for the step."""
STEP_S = 0.5
"""Approximate seconds of planning between two rounds."""


@dataclass(frozen=True, slots=True)
class PassEnd:
    """The end of a pass: seconds until the next pass, and the state with the commit of the pass, if any."""

    rest_s: float
    state: BackupState | None = None


Pass = Generator[BackupState | None, BackupState, PassEnd]
"""A pass of a chore, paused after every step with the state of a commit, if any, and continued on the newest state."""


class Chore:
    """A chore, pass after pass, the first in `first_s` seconds: `begin` begins a pass on the newest state.

    An error is logged as `failed`, and the next pass begins `retry_s` seconds later, or `lasting_s` seconds later after
    one of the errors `lasting`: they do not mend themselves, and every attempt reads anew. That another writer
    committed first is logged as `overtaken`, if given, and is no failure."""

    def __init__(  # noqa: PLR0913  # all by keyword
        self,
        begin: Callable[[Backup, BackupState], Pass],
        *,
        clock: Clock,
        failed: str,
        retry_s: float,
        overtaken: str | None = None,
        lasting: tuple[type[OffsiteError], ...] = (),
        lasting_s: float = 0.0,
        first_s: float = 0.0,
    ) -> None:
        self._begin, self._clock, self._retry_s = begin, clock, retry_s
        self._failed, self._overtaken, self._lasting, self._lasting_s = failed, overtaken, lasting, lasting_s
        self._paused: Pass | None = None
        self._next_s = clock.monotonic_s() + first_s

    def step(self, backup: Backup, state: BackupState) -> BackupState | None:
        """Do a step, if due. `state` is the newest state. Returns the state with a commit of the step, if any. Raises
        no `OffsiteError`."""
        if self._paused is None and self._clock.monotonic_s() < self._next_s:
            return None
        steps, self._paused = self._paused, None
        try:
            if steps is None:
                steps = self._begin(backup, state)
                changed = next(steps)
            else:
                changed = steps.send(state)
        except StopIteration as stop:
            end: PassEnd = stop.value
        except OffsiteError as error:
            end = PassEnd(self._log(error, backup, state))
        else:
            self._paused = steps
            return changed
        self._next_s = self._clock.monotonic_s() + end.rest_s
        return end.state

    def _log(self, error: OffsiteError, backup: Backup, state: BackupState) -> float:
        """Log an error, and return the seconds until the next pass."""
        if self._overtaken is not None and isinstance(error, CommitLost):
            decided(self._overtaken, commit=state.seq, error=error.id, why=error.message)
            return self._retry_s
        warned(self._failed, error=error.id, why=error.message)
        if isinstance(error, Damaged):
            backup.on_damage(error.message)
        return self._lasting_s if isinstance(error, self._lasting) else self._retry_s


def collecting(*, runner: Runner, clock: Clock, grace_s: float, in_force: RetentionInForce = NOTHING_IN_FORCE) -> Chore:
    """Collects objects replaced more than `grace_s` seconds ago, and objects deleted under the rules `in_force`."""
    grace_ms, rest_s = int(grace_s * 1000), min(COLLECTING_REST_S, max(1.0, grace_s))

    def collect(backup: Backup, _: BackupState) -> Pass:
        collection = yield from collection_steps(
            backup, runner=runner, clock=clock, grace_ms=grace_ms, in_force=in_force
        )
        return PassEnd(rest_s if collection.is_last else 0.0)

    return Chore(
        collect,
        clock=clock,
        failed="collection_failed",
        retry_s=RETRY_S,
        lasting=(StoreDenied, Damaged),
        lasting_s=COLLECTING_REST_S,
    )


def compacting(*, runner: Runner, clock: Clock, every_s: float, guard: Callable[[], None]) -> Chore:
    """Compacts due regions every `every_s` seconds. `guard`: raises where this process may add nothing any more."""

    def compact_all(backup: Backup, state: BackupState) -> Pass:
        while True:
            plan = plan_compaction(backup, CompactionRequest(), head=state)
            fitting = tuple(region for region in plan.regions if _fits(region))
            chosen = tuple(first_regions(fitting, STEP_BYTES))
            compacted = compact(backup, replace(plan, regions=chosen), runner=runner, guard=guard) if chosen else None
            changed = None if compacted is None or compacted.state.seq == state.seq else compacted.state
            if compacted is None or compacted.left_alone or len(chosen) == len(fitting):
                return PassEnd(every_s, changed)
            state = yield changed

    return Chore(
        compact_all,
        clock=clock,
        failed="compaction_failed",
        overtaken="compaction_overtaken",
        retry_s=min(RETRY_S, every_s),
        first_s=every_s,
    )


def _fits(region: Region) -> bool:
    """Whether a region fits into a step. A region that does not fit is logged."""
    if region.raw_bytes <= STEP_BYTES:
        return True
    noted("region_too_large", what=str(region.partition), bytes=region.raw_bytes, hint="offsite compact run")
    return False


def retaining(policy: RetentionPolicy, *, cluster: Cluster, clock: Clock, every_s: float) -> Chore:
    """Deletes points outside of `policy` every `every_s` seconds."""

    def retain(backup: Backup, state: BackupState) -> Pass:
        recorded_settings = read_cluster_retention(cluster.admin, backup, state) if policy.mirrors else {}
        steps = retention_plan_steps(backup, policy, clock=clock, cluster_retention=recorded_settings)
        while (plan := _plan_for_a_moment(steps, clock)) is None:
            state = yield None
        carried = carry_to(plan, state)
        if carried is None:
            noted("retention_overtaken", commit=state.seq)
            return PassEnd(0.0)
        applied = carry_out(backup, carried, base=state)
        return PassEnd(every_s, None if applied.commit is None else applied.state)

    return Chore(
        retain,
        clock=clock,
        failed="retention_failed",
        overtaken="retention_overtaken",  # a pin, a compaction, a new restore: the next plan knows them
        retry_s=min(RETRY_S, every_s),
        lasting=(StoreDenied, Damaged, Refused),
        lasting_s=every_s,
    )


def _plan_for_a_moment(steps: Generator[None, None, RetentionPlan], clock: Clock) -> RetentionPlan | None:
    """The plan when ready, else None."""
    until_s = clock.monotonic_s() + STEP_S
    try:
        while clock.monotonic_s() < until_s:
            next(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    return None


def tidying(*, clock: Clock) -> Chore:
    """Deletes leftovers of runs that never ended."""

    def tidy(backup: Backup, _: BackupState) -> Pass:
        yield from leftover_steps(backup, clock=clock)
        return PassEnd(TIDYING_REST_S)

    return Chore(tidy, clock=clock, failed="leftovers_not_collected", retry_s=TIDYING_REST_S, first_s=TIDYING_REST_S)
