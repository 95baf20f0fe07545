"""Brings a schedule up to now: decides and starts every due time once, with any number of operators, and reports the
new state.

A fired time is a job with its own idempotency key, so the next operator continues after a crash. A job that could not
start in time, or whose process vanished, is shut out before another time fires: so two runs of a schedule never
overlap, even if an operator sleeps between two steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from offsite.jobs.ask import JobRequest
from offsite.jobs.end import find_job_of_word, withdraw_job
from offsite.jobs.status import GIVEN_UP, JobReport, JobState, read_job
from offsite.model.errors import (
    Denied,
    JobNotBegun,
    JobNotFound,
    LeaseHeld,
    NoRepository,
    OffsiteError,
    RequestRepeated,
    TooManyJobs,
    UserError,
)
from offsite.model.journal import decided
from offsite.model.units import format_time
from offsite.operator.decide.desired import DesiredBackup, RepositoryPlace
from offsite.operator.decide.schedule import (
    DecisionKind,
    DesiredSchedule,
    ObservedSchedule,
    build_command,
    decide_time,
    is_ahead,
    next_time,
)
from offsite.operator.resources.jobs import Action
from offsite.operator.world.jobs import BY, JobStarter
from offsite.operator.world.observe import Observer, read_history
from offsite.operator.world.timeline import (
    RecordedDecision,
    RunTarget,
    ScheduleRun,
    SkipReason,
    Timeline,
    describe_run,
    is_shown,
    last_failure,
)
from offsite.repository.declared.history import BackupPhase
from offsite.stores.store import Store

RunSubject = RunTarget | SkipReason | None
"""The subject of a run now, the reason for no run now, or None: no backup exists."""
RUNS_MIN = 10
"""Runs that are searched for the newest finished run, however few runs the status shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatus:
    """The status of a schedule. `last_ms`: newest fired time; None: none; the same for `next_ms`. `runs`: newest first.
    `problem`: reason why the schedule cannot fire. `failure`: failure of the newest finished run. `clock`: a clock
    error. All three empty: the schedule is reconciled."""

    last_ms: int | None = None
    next_ms: int | None = None
    runs: tuple[ScheduleRun, ...] = ()
    problem: str = ""
    failure: str = ""
    clock: str = ""
    is_running: bool = False


@dataclass(slots=True)
class _Look:
    """One observation: the newest decision, the newest fired time, and the job of the fired time. `unseen`: the job
    cannot be found, because its repository is permanently unreachable."""

    newest: RecordedDecision | None = None
    fired: RecordedDecision | None = None
    runs: list[RecordedDecision] = field(default_factory=list)
    job: JobReport | None = None
    unseen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleExecutor:
    """The means to observe and execute a schedule. `home`: the store that all operators of the home share."""

    jobs: JobStarter
    home: Store

    @property
    def observer(self) -> Observer:
        return self.jobs.observer

    def reconcile(self, desired: DesiredSchedule, target: RunSubject) -> ScheduleStatus:
        """Decide the due time, start its job, and return the status. `target`: subject of a run now; None: no backup
        exists. Raises the errors of an observation: then nothing was decided."""
        problem = "" if target is not None else "there is no backup for this run"
        try:
            self._shut_out(desired, self._look(desired, target))
            self._decide(desired, self._look(desired, target), target)
            self._begin(desired, self._look(desired, target), target)
        except (LeaseHeld, TooManyJobs, JobNotBegun, RequestRepeated) as error:
            decided("schedule_waits", why=error.message, uid=desired.uid)
        except OffsiteError as error:
            problem = f"{error.id}: {error.message}{'; ' if error.hint else ''}{error.hint}"
        runs = max(desired.history, RUNS_MIN)
        return self._status(desired, self._look(desired, target, runs=runs), target, problem)

    def _look(self, desired: DesiredSchedule, target: RunSubject, *, runs: int = 0) -> _Look:
        """Observe, with at least `runs` newest runs."""
        look = _Look()
        for recorded in Timeline(store=self.home, uid=desired.uid).newest_first():
            look.newest = look.newest or recorded
            if recorded.decision.kind is DecisionKind.FIRED and look.fired is None:
                look.fired = recorded
                try:
                    look.job = self._job(desired, recorded)
                except OffsiteError as error:
                    if not _is_out_of_reach(error, recorded, target):
                        raise
                    look.unseen = True
            if is_shown(recorded.decision):
                look.runs.append(recorded)
            if len(look.runs) >= runs and look.fired is not None:
                break
        return look

    def _job(self, desired: DesiredSchedule, fired: RecordedDecision) -> JobReport | None:
        """Return the job of a fired time; None if the job is not requested yet, or its records were deleted."""
        if fired.target is None:
            return None
        store = self.observer.open_store(fired.target.place)
        word = idempotency_word(desired.uid, fired.decision.time_ms)
        job = find_job_of_word(store, kind=desired.action.value, by=BY, word=word)
        try:
            return None if job is None else read_job(store, job)
        except JobNotFound:
            return None

    def _observed(self, desired: DesiredSchedule, look: _Look, target: RunSubject) -> ObservedSchedule:
        now_ms = self.home.now_ms()
        return ObservedSchedule(
            newest=look.newest.decision if look.newest else None,
            running=look.job.state if look.job else None,
            is_unasked=_is_unasked(desired, look, now_ms),
            now_ms=now_ms,
            reason=target.reason if isinstance(target, SkipReason) else "",
        )

    def _shut_out(self, desired: DesiredSchedule, look: _Look) -> None:
        """Shut out the job of the newest fired time, if the job is lost or did not start in time."""
        fired, job = look.fired, look.job
        if fired is None or fired.target is None or look.unseen:
            return
        store = self.observer.open_store(fired.target.place)
        if job is not None and job.state is JobState.LOST and job.exit_code != GIVEN_UP:
            self.jobs.give_up(store, job.id)
        if job is None and not _may_begin(desired, fired, self.home.now_ms()):
            word = idempotency_word(desired.uid, fired.decision.time_ms)
            withdraw_job(store, kind=desired.action.value, by=BY, word=word, identity=self.observer.identity)

    def _decide(self, desired: DesiredSchedule, look: _Look, target: RunSubject) -> None:
        next_one = decide_time(desired, self._observed(desired, look, target))
        fires = next_one is not None and next_one.kind is DecisionKind.FIRED
        if next_one is None or (fires and target is None):  # a backup may still appear before the deadline
            return
        timeline, behind = Timeline(store=self.home, uid=desired.uid), look.newest.seq if look.newest else 0
        about = target if fires and isinstance(target, RunTarget) else None
        if timeline.append(next_one, about, behind=behind):
            decided("schedule", why=next_one.kind.value, uid=desired.uid, time=format_time(next_one.time_ms))
            timeline.prune(but=look.fired.seq if look.fired else behind)

    def _begin(self, desired: DesiredSchedule, look: _Look, target: RunSubject) -> None:
        """Request the job of the newest fired time, if no operator has. If the subject is another backup by now, the
        time waits until its deadline passes."""
        fired = look.fired
        if fired is None or fired.target is None or not _is_unasked(desired, look, self.home.now_ms()):
            return
        if fired.target != target or look.newest is None or desired.suspend:
            return
        request = JobRequest(
            kind=desired.action.value,
            arguments=build_command(desired, fired.target.backup),
            backup=fired.target.backup,
            by=BY,
            cluster=fired.target.cluster,
        )
        self.jobs.begin(fired.target.place, request, word=idempotency_word(desired.uid, fired.decision.time_ms))

    def _status(self, desired: DesiredSchedule, look: _Look, target: RunSubject, problem: str) -> ScheduleStatus:
        now_ms = self.home.now_ms()

        def job_of(recorded: RecordedDecision) -> JobReport | None:
            return look.job if recorded is look.fired and not look.unseen else self._job(desired, recorded)

        runs = [
            describe_run(recorded, job_of, deadline_ms=desired.deadline_ms, now_ms=now_ms) for recorded in look.runs
        ]
        return ScheduleStatus(
            last_ms=look.fired.decision.time_ms if look.fired else None,
            next_ms=next_time(desired, self._observed(desired, look, target)),
            runs=tuple(runs[: desired.history]),
            problem=problem,
            failure=last_failure(runs),
            clock=_wrong_clock(look, now_ms),
            is_running=any(run.is_ongoing for run in runs),
        )


def idempotency_word(uid: str, time_ms: int) -> str:
    """The idempotency key of the job of a time."""
    return f"schedule-{uid}-{format_time(time_ms)}"


def find_target(observer: Observer, schedule: DesiredSchedule, backup: DesiredBackup) -> RunSubject:
    """Return the subject of a run now: the live low-level backup of a declared backup, in its place; for a drill also
    the newest stopped one. None: no such backup. Raises `DamagedObject`, and the errors of the store."""
    store = observer.open_store(backup.place)
    history = read_history(store, backup.ledger)
    is_drill = schedule.action is Action.DRILL
    low = history.live or (history.remaining[-1] if history.remaining and is_drill else None)
    if low is None:
        return None
    name = low.beginning.backup
    if low.phase is BackupPhase.PAUSED and not is_drill:
        return SkipReason(reason=f"{name} is paused: nothing is copied")
    if not _may_be_whole(observer, backup.place, store, name):
        return SkipReason(reason=f"{name} has not completed its first full copy")
    return RunTarget(place=backup.place, backup=name, cluster=schedule.cluster if is_drill else low.beginning.cluster)


def _may_be_whole(observer: Observer, place: RepositoryPlace, store: Store, backup: str) -> bool:
    """Whether the backup may be whole. True for a damaged backup: a run reports the damage."""
    try:
        return observer.facts.read(place, store, backup).is_whole
    except OffsiteError:
        return True


def _may_begin(desired: DesiredSchedule, fired: RecordedDecision, now_ms: int) -> bool:
    """Whether a fired time is recent enough to start now, if no operator has requested its job."""
    time_ms = fired.decision.time_ms
    return now_ms - time_ms <= desired.deadline_ms and not is_ahead(time_ms, now_ms=now_ms)


def _is_unasked(desired: DesiredSchedule, look: _Look, now_ms: int) -> bool:
    """Whether the newest fired time may still start. True if the job cannot be looked up."""
    return look.fired is not None and look.job is None and _may_begin(desired, look.fired, now_ms)


def _is_out_of_reach(error: OffsiteError, fired: RecordedDecision, target: RunSubject) -> bool:
    """Whether a repository is permanently closed, or replaced by another one: the schedule does not wait for such a
    repository. A silent repository in use may have a running job."""
    if isinstance(error, UserError | NoRepository | Denied):
        return True
    return isinstance(target, RunTarget) and fired.target is not None and fired.target.place != target.place


def _wrong_clock(look: _Look, now_ms: int) -> str:
    """Report a decision in the future, until another time is decided."""
    for recorded in (look.newest, *look.runs[:1]):
        if recorded is not None and is_ahead(recorded.decision.time_ms, now_ms=now_ms):
            wrong, now = format_time(recorded.decision.time_ms), format_time(now_ms)
            return (
                f"a decision is dated {wrong}, but it is {now}: a clock is or was wrong; the schedule continues from "
                "now"
            )
    return ""
