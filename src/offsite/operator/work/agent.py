"""An agent waits until its backup is decided to run and no other agent copies. The agent then copies until the decision
changes.

Several agents of a backup read its ledger. One agent holds the backup, by a lease in the repository. The other agents
stand by without a Spark, and one of them takes a silent lease. Before every commit the agent reads the log, and then
checks the ledger and its lease (`Follow.guard`). Hence a stopped agent commits nothing after a seal, and of two agents
with a believed lease only one wins a commit.

An agent reports success regularly, and failures at once with the reason. Writing the report never ends or delays the
work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from math import inf

from offsite.backup.options import BackupWords, parse_backup, parse_limits
from offsite.backup.outages import Outages
from offsite.backup.plan import check_cluster
from offsite.engine.rate_limits import RateLimits
from offsite.engine.runner import Runner
from offsite.follow.follower import Follower, FollowSettings, FollowTimes, Round
from offsite.kafka.cluster import Cluster
from offsite.model.clock import MOST_APART_MS, Clock
from offsite.model.errors import LeaseHeld, OffsiteError, OtherCluster
from offsite.model.journal import noted, warned
from offsite.model.names import named
from offsite.model.selection import stored_patterns
from offsite.model.uninterrupted import let_interrupt
from offsite.model.units import parse_duration_s
from offsite.operator.decide.options import Parameters, parse_parameters
from offsite.operator.work.progress import ProgressRunner
from offsite.repository.declared.history import BackupPhase, DeclaredHistory, LowLevelBackup
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import declared_ledger
from offsite.repository.declared.notes import WHY_MAX, AgentReport, get_agent_report, put_agent_report
from offsite.repository.lease import LeaseRenewal, ProcessIdentity
from offsite.repository.repository import Repository
from offsite.stores.store import Store
from offsite.upkeep.retention.policy import RetentionPolicy

LOOK_S = 1.0
"""Seconds between two checks whether the backup is still to run."""
STAND_BY_S = 3.0
"""Seconds between two checks of an agent on stand-by."""
WELL_EVERY_S = 60.0
"""Time between two reports of success: far less than the silence that an operator tolerates."""
_NAMED_MAX = 5


@dataclass(slots=True)
class Heartbeat:
    """Reports only while this agent holds a backup: the activity of a stand-by proves nothing."""

    store: Store
    layout: DeclaredLayout
    clock: Clock
    _report: AgentReport = field(default=AgentReport(number=0))
    _said_s: float = -inf
    _number: int = 0
    _missing: str = ""
    _is_behind_a_round: bool = False

    def take(self, number: int, term: int) -> None:
        """The agent holds the low-level backup `number`, by the lease term `term`. The time of the last success comes
        from the reports of earlier agents: until then the backup made progress, even if this agent fails at first."""
        self._number, before = number, self._report
        try:
            before = get_agent_report(self.store, self.layout) or before
        except OffsiteError as error:
            warned("agent_word", error=error.id, why=error.message, uid=self.layout.uid)
        before = before if before.number == number else AgentReport(number=number)
        self._missing, self._is_behind_a_round = before.missing, False
        self._report, self._said_s = AgentReport(number=number, term=term, well_ms=before.well_ms), -inf

    def rest(self) -> None:
        """The agent holds no backup."""
        self._number = 0

    def report_success(self) -> None:
        """A round, or a commit in a round, succeeded."""
        report = self._report
        is_news = not report.well_ms or bool(report.why) or report.missing != self._missing
        if self._number and (is_news or self.clock.monotonic_s() - self._said_s >= WELL_EVERY_S):
            self._say(why="")

    def begin_round(self) -> None:
        """A round starts: only a commit shows progress now."""
        self._is_behind_a_round = False

    def end_round(self, missing: Sequence[str]) -> None:
        """A round succeeded. `missing`: topics that the round did not find. Later work (a roll-up, a collection) may
        take long, and commit nothing."""
        self._missing, self._is_behind_a_round = named(missing, most=_NAMED_MAX)[:WHY_MAX], True
        self.report_success()

    def report_progress(self) -> None:
        """The work after a round makes progress."""
        if self._is_behind_a_round and not self._report.why:
            self.report_success()

    def report_failure(self, error: OffsiteError) -> None:
        """The work stopped with an error."""
        why = f"{error.id}: {error.message}"
        if self._number and why != self._report.why:
            self._say(why=why)

    def _say(self, *, why: str) -> None:
        try:
            well_ms = now_ms = self.store.now_ms()
            if why:
                well_ms = self._report.well_ms if self._report.well_ms - now_ms <= MOST_APART_MS else 0
            word = AgentReport(
                number=self._number, term=self._report.term, well_ms=well_ms, why=why, missing=self._missing
            )
            put_agent_report(self.store, self.layout, word)
        except OffsiteError as error:  # the report is repeated
            warned("agent_word", error=error.id, why=error.message, uid=self.layout.uid)
        else:
            self._report, self._said_s = word, self.clock.monotonic_s()


Guard = Callable[[], None]
OpenFollower = Callable[[LowLevelBackup, Guard, Heartbeat], AbstractContextManager[Follower]]
"""Open a follower of a low-level backup, with its Spark, for a block. The follower reports finished rounds, and the
progress of later work, to the heartbeat."""


class StopCopying(Exception):  # no error: it ends the work on a backup
    """The agent may no longer copy the backup, or not with these settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentContext:
    """The context of an agent. `interval_of`: seconds from one round to the next, for a low-level backup.
    `check_source`: raises `OtherCluster` for a low-level backup of another cluster than the agent's."""

    store: Store
    uid: str
    open_follower: OpenFollower
    interval_of: Callable[[LowLevelBackup], float]
    check_source: Callable[[LowLevelBackup], None]
    outages: Outages
    clock: Clock
    identity: ProcessIdentity


class Agent:
    """Runs until interrupted (`KeyboardInterrupt`), or until an error that ends the agent."""

    def __init__(self, parts: AgentContext) -> None:
        self._parts = parts
        self._layout = DeclaredLayout(uid=parts.uid)
        self._ledger = declared_ledger(parts.store, self._layout.uid)
        self._terms = self._layout.agent(parts.store)
        self._heartbeat = Heartbeat(parts.store, self._layout, parts.clock)
        self._history: DeclaredHistory | None = None
        self._checked = 0

    def run(self) -> None:
        """Raises an error that cannot be waited out, or that lasted too long."""
        self._parts.outages.on_worked = self._heartbeat.report_success
        while True:
            let_interrupt()
            try:
                self.step()
                self._heartbeat.rest()
                self._parts.outages.worked()
            except OffsiteError as error:
                self._history = None
                self._wait(error)

    def _wait(self, error: OffsiteError) -> None:
        self._heartbeat.report_failure(error)
        self._parts.outages.wait(error)

    def step(self) -> None:
        """Check once: copy for as long as the agent holds the backup, or else wait a moment."""
        low = self._newest()
        if low is None or low.phase is not BackupPhase.RUNNING:
            self._heartbeat.rest()
            self._parts.clock.sleep(LOOK_S)
            return
        with ExitStack() as stack:
            try:
                lease = stack.enter_context(self._terms.renewed(self._parts.identity))
            except LeaseHeld:
                self._heartbeat.rest()
                self._check_source(low)
                self._parts.clock.sleep(STAND_BY_S)
                return
            try:
                self._copy(low, lease)
            except StopCopying as told:
                self._heartbeat.rest()
                noted("agent_rests", why=str(told), uid=self._parts.uid, backup=low.beginning.backup)

    def _check_source(self, low: LowLevelBackup) -> None:
        """Check that this agent can copy the backup. An agent on standby that could never take over is no help, and
        ends with `OtherCluster`: on another machine the same cluster name may lead to another cluster. A cluster
        without an answer is asked again later."""
        if self._checked == low.number:
            return
        try:
            self._parts.check_source(low)
        except OtherCluster:
            raise
        except OffsiteError as error:
            noted("source_not_checked", error=error.id, why=error.message, uid=self._parts.uid)
        else:
            self._checked = low.number

    def _copy(self, low: LowLevelBackup, lease: LeaseRenewal) -> None:
        self._heartbeat.take(low.number, lease.claim.term)
        noted("agent_copies", uid=self._parts.uid, backup=low.beginning.backup, term=lease.claim.term)

        def guard() -> None:
            if lease.is_lost:
                raise StopCopying("another agent works on it")
            if (now := self._newest()) != low:
                raise StopCopying(f"it is {now.phase if now else 'gone'}, or its settings change")

        with self._parts.open_follower(low, guard, self._heartbeat) as follower:
            self._go_round(follower, guard, self._parts.interval_of(low))

    def _go_round(self, follower: Follower, guard: Guard, interval_s: float) -> None:
        parts = self._parts
        while True:
            began_s = parts.clock.monotonic_s()
            self._heartbeat.begin_round()
            try:
                guard()
                follower.work()
            except OffsiteError as error:
                follower.forget()
                self._wait(error)
                continue
            parts.outages.worked()
            while (left_s := interval_s - (parts.clock.monotonic_s() - began_s)) > 0:
                guard()
                parts.clock.sleep(min(left_s, LOOK_S))

    def _newest(self) -> LowLevelBackup | None:
        self._history = self._ledger.read(self._history)
        return self._history.backups[-1] if self._history.backups else None


OpenSpark = Callable[[RateLimits], AbstractContextManager[Runner]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTools:
    """The means of an agent process. `open_spark`: opens a Spark for a block. `retain`: the retention of the backup,
    applied by another job."""

    repository: Repository
    cluster: Cluster
    open_spark: OpenSpark
    outages: Outages
    clock: Clock
    on_round: Callable[[Round], None]
    retain: RetentionPolicy | None = None


def make_agent(uid: str, tools: AgentTools) -> Agent:
    """Make the agent of the resource with that uid. Raises `BadName`."""

    @contextmanager
    def open_follower(low: LowLevelBackup, guard: Guard, heartbeat: Heartbeat) -> Iterator[Follower]:
        parameters = _parameters(low)

        def report_round(finished: Round) -> None:
            heartbeat.end_round(finished.plan.source.missing)
            tools.on_round(finished)

        with tools.open_spark(parse_limits(_words(low, parameters))) as runner:
            follower = Follower(
                _follow(uid, low, parameters, tools, ProgressRunner(runner, heartbeat.report_progress), guard),
                outages=tools.outages,
                clock=tools.clock,
                on_round=report_round,
            )
            try:
                yield follower
            finally:
                follower.close()

    def check_source(low: LowLevelBackup) -> None:
        check_cluster(tools.repository.backup(low.beginning.backup), tools.cluster.admin.cluster().cluster_id)

    return Agent(
        AgentContext(
            store=tools.repository.store,
            uid=uid,
            open_follower=open_follower,
            interval_of=lambda low: _parameters(low).interval_s,
            check_source=check_source,
            outages=tools.outages,
            clock=tools.clock,
            identity=ProcessIdentity.current(),
        )
    )


def _follow(  # noqa: PLR0913, PLR0917  # whose backup it is, and what it is made with
    uid: str, low: LowLevelBackup, parameters: Parameters, tools: AgentTools, runner: Runner, guard: Guard
) -> FollowSettings:
    request = parse_backup(low.beginning.backup, _words(low, parameters))
    return FollowSettings(
        repository=tools.repository,
        cluster=tools.cluster,
        runner=runner,
        request=replace(request, reselects=True, declared_by=uid),
        tends=True,
        agrees_to=tools.retain,
        times=FollowTimes(
            interval_s=parameters.interval_s,
            collect_after_s=parameters.collect_after_s,
            checkpoint_every_s=parse_duration_s(low.settings.snapshot_duration),
        ),
        checkpoints=True,
        guard=guard,
    )


def _parameters(low: LowLevelBackup) -> Parameters:
    return parse_parameters(dict(low.settings.parameters))


def _words(low: LowLevelBackup, parameters: Parameters) -> BackupWords:
    words = BackupWords(topics=stored_patterns(low.beginning.topics), missing_topics="warn")
    if low.beginning.exclude:
        words["exclude"] = stored_patterns(low.beginning.exclude)
    if parameters.groups:
        words["groups"] = parameters.groups
    if parameters.compression:
        words["compression"] = parameters.compression  # type: ignore[typeddict-item]  # parsed, or refused, by the parser
    if parameters.read_limit:
        words["read_limit"] = parameters.read_limit
    if parameters.write_limit:
        words["write_limit"] = parameters.write_limit
    return words
