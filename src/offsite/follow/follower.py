"""Follows topics with a backup: round after round, every round a pass with at most one commit unless it takes long.

A round costs only what is new. The state that a commit leaves is the base of the next round, and nothing is read back
from the repository. Only after an error, when nobody knows the last commit, the backup is opened again. A round without
news makes no commit, except once in a while to record that the source was seen: otherwise a backup of quiet topics
would look like a dead backup.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from offsite.backup.options import BackupRequest
from offsite.backup.outages import Outages
from offsite.backup.pass_commits import PassMemory
from offsite.backup.plan import BackupPlan, OpenedBackup, make_replan, open_existing_backup, plan_backup
from offsite.backup.registry import commit_last_reading
from offsite.backup.run import BackupResult, carry_out, ends_of, make_backup
from offsite.checkpoint.opening import Opener
from offsite.checkpoint.participants import Participants
from offsite.engine.runner import OnProgress, Runner
from offsite.follow.checkpointing import Checkpointing
from offsite.follow.chores import RETAIN_EVERY_S, Chore, collecting, compacting, retaining, tidying
from offsite.kafka.cluster import Cluster
from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.repository.backup import Backup
from offsite.repository.checkpoint_records import Stamping
from offsite.repository.leftovers import LEFTOVER_AFTER_MS
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.schemas.registry_client import RegistryAddress
from offsite.upkeep.collection.agreement import RetentionInForce
from offsite.upkeep.retention.mirror import read_cluster_retention
from offsite.upkeep.retention.policy import RetentionPolicy
from offsite.upkeep.roll_up import RollUpWatch, roll_up_step

HEARTBEAT_S = 300.0
"""Seconds after which a commit is made even without news."""
PACKED_FROM = 2
"""From so many small ranges on, a round writes a pack: its small objects never end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A finished round: its plan, the result of its commits (None where nothing was new), and the state of the backup.
    Times: epoch ms of its beginning, seconds of the round, seconds of its commits, and total seconds for which limits
    held back tasks."""

    plan: BackupPlan
    result: BackupResult | None
    state: BackupState
    began_ms: int
    took_s: float
    commits_s: tuple[float, ...] = ()
    throttled_s: float = 0.0


def _unguarded() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowTimes:
    """A round begins `interval_s` seconds after the beginning of the last round, or at once if the last round took
    longer. Objects replaced more than `collect_after_s` seconds ago are deleted. Every `retain_every_s` seconds, points
    outside of `retain` are deleted and compacted topics are compacted; once a day, leftovers of runs that never ended
    are deleted. `retain` None keeps everything. `checkpoint_every_s`: seconds between checkpoints (None: requested
    only)."""

    interval_s: float
    collect_after_s: float = LEFTOVER_AFTER_MS / 1000
    retain: RetentionPolicy | None = None
    retain_every_s: float = RETAIN_EVERY_S
    checkpoint_every_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowSettings:
    """What to follow, from where to where, and when. Without a policy in `times` there is no upkeep, unless `tends`:
    somebody else lets go in that case, and points that `agrees_to` lets go are collected too. With `checkpoints`, takes
    checkpoints; `participants` take part in all of them, and applications as `stamping` says unless a request says
    otherwise."""

    repository: Repository
    cluster: Cluster
    runner: Runner
    request: BackupRequest
    times: FollowTimes
    tends: bool = False
    agrees_to: RetentionPolicy | None = None
    checkpoints: bool = False
    participants: Participants | None = None
    stamping: Stamping | None = None
    guard: Callable[[], None] = _unguarded


def _make_chores(follow: FollowSettings, clock: Clock) -> tuple[Chore, ...]:
    """The chores of a run, in the order of their steps."""
    times = follow.times
    policy = times.retain if follow.agrees_to is None else follow.agrees_to
    in_force = RetentionInForce(policy=policy, cluster_retention=partial(read_cluster_retention, follow.cluster.admin))
    every_s, chores = times.retain_every_s, list[Chore]()
    if times.retain is not None:
        chores.append(retaining(times.retain, cluster=follow.cluster, clock=clock, every_s=every_s))
    if tends := follow.tends or times.retain is not None:
        chores.append(compacting(runner=follow.runner, clock=clock, every_s=every_s, guard=follow.guard))
    chores.append(collecting(runner=follow.runner, clock=clock, grace_s=times.collect_after_s, in_force=in_force))
    if tends:
        chores.append(tidying(clock=clock))
    return tuple(chores)


class Follower:
    """Follows until an interrupt (`KeyboardInterrupt`) or a final error. `on_round` is called after every round."""

    def __init__(
        self,
        follow: FollowSettings,
        *,
        outages: Outages,
        clock: Clock,
        on_round: Callable[[Round], None],
        on_progress: OnProgress | None = None,
    ) -> None:
        self._follow, self._outages, self._clock = follow, outages, clock
        self._on_round, self._on_progress = on_round, on_progress
        self._opened: OpenedBackup | None = None
        self._backup: Backup | None = None
        self._memory = PassMemory()
        self._registry: RegistryAddress | None = None
        self._watch = RollUpWatch(clock)
        self._chores = _make_chores(follow, clock)
        self._checkpoints = Checkpointing(
            is_wanted=follow.checkpoints,
            every_s=follow.times.checkpoint_every_s,
            clock=clock,
            participants=follow.participants,
            stamping=follow.stamping,
            opener=Opener(cluster=follow.cluster, clock=clock),
        )
        self._committed_s = clock.monotonic_s()
        self._since: int | None = None

    @property
    def since(self) -> int | None:
        """The newest commit when the first round began; None: no round has begun."""
        return self._since

    @property
    def checkpoint_in_s(self) -> float | None:
        """Seconds until the next checkpoint of the schedule, at most 0 if due; None without a schedule."""
        return self._checkpoints.due_in_s

    def run(self) -> None:
        """Run rounds without end. Raises an error that cannot be waited out, or lasted too long."""
        try:
            self._go_on()
        except KeyboardInterrupt:
            if self._backup is not None and self._registry is not None:
                commit_last_reading(self._backup, self._registry, self._memory.registry, self._clock)
            raise
        finally:
            self.close()

    def close(self) -> None:
        """Release everything that a run holds. A caller of `work` calls `close` at the end."""
        self._checkpoints.close()

    def _go_on(self) -> None:
        while True:
            began_s = self._clock.monotonic_s()
            try:
                self.work()
            except OffsiteError as error:
                self.forget()
                self._outages.wait(error)
                continue
            self._outages.worked()
            left_s = self._follow.times.interval_s - (self._clock.monotonic_s() - began_s)
            if left_s > 0:
                self._clock.sleep(left_s)

    def work(self) -> Round:
        """Do a round and its upkeep. Raises the errors of a round and of the store."""
        last_round = self.round()
        self._on_round(last_round)
        self._follow.guard()  # a round may have taken hours
        self._roll_up(last_round)
        if self._backup is not None and last_round.state.seq:
            for chore in self._chores:
                if self._opened is not None and (state := chore.step(self._backup, self._opened.state)) is not None:
                    self._opened = OpenedBackup(backup=self._backup, state=state)
        return last_round

    def forget(self) -> None:
        """Open the backup again in the next round: after an error nobody knows the last commit."""
        self._checkpoints.release()
        self._opened = None

    def round(self) -> Round:
        """Do a round. Raises the errors of planning and carrying out."""
        began_ms, began_s = self._clock.now_ms(), self._clock.monotonic_s()
        follow = self._follow
        repository, admin, request = follow.repository, follow.cluster.admin, follow.request
        opened = self._opened or open_existing_backup(repository, request.backup)
        if (backup := self._backup or opened.backup) is not None:
            self._checkpoints.prepare(backup)
        slots = follow.runner.slots
        plan = plan_backup(
            repository,
            admin,
            request,
            slots=slots,
            opened=opened,
            packed_from=PACKED_FROM,
            open_checkpoint=self._checkpoints.open,
            catching=None if self._opened is None else self._memory.emptied_partitions,
        )
        again = make_replan(repository, admin, request, slots=slots, packed_from=PACKED_FROM)
        self._registry = plan.registry
        self._since = plan.base.seq if self._since is None else self._since
        follow.guard()
        self._backup = self._backup or make_backup(repository, plan, follow.runner)
        plan = self._checkpoints.begin(self._backup, plan)
        try:
            pass_result = carry_out(
                plan,
                self._backup,
                repository=repository,
                kafka=follow.cluster.config,
                runner=follow.runner,
                on_progress=self._on_progress,
                clock=self._clock,
                memory=self._memory,
                only_news=began_s - self._committed_s < HEARTBEAT_S,
                on_commit=self._outages.worked,  # a long round with progress is no outage, however often it breaks
                participants_complete=self._checkpoints.participants_complete,
                replan=again,
            )
        except BaseException as error:
            self._checkpoints.abort_round(error)
            raise
        self._checkpoints.finish_round(pass_result)
        self._opened = OpenedBackup(backup=self._backup, state=pass_result.state)
        if pass_result.result is not None:
            self._committed_s = began_s
        return Round(
            plan=plan,
            result=pass_result.result,
            state=pass_result.state,
            began_ms=began_ms,
            took_s=self._clock.monotonic_s() - began_s,
            commits_s=pass_result.commits_s,
            throttled_s=pass_result.throttled_s,
        )

    def _roll_up(self, last_round: Round) -> None:
        """Do a step of the roll-up, if due. Raises `CommitLost` and the errors of the store."""
        backup, follow, plan = self._backup, self._follow, last_round.plan
        if last_round.result is None or backup is None:
            return
        for task in plan.copy.tasks:
            self._watch.note(task.partition_id)
        ends = ends_of(plan, backup, follow.cluster.config)
        watch, state = self._watch, last_round.state
        rolled_up = roll_up_step(backup, state, watch.chosen(state), runner=follow.runner, ends=ends, watch=watch)
        if rolled_up is not None:
            self._opened = OpenedBackup(backup=backup, state=rolled_up.state)
