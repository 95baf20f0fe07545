"""Brings a schedule up to now: decides and starts every due time once, with any number of operators, and reports the
new state.

A fired time is a job with its own idempotency key, so the next operator continues after a crash. A job that could not
start in time, or whose process vanished, is shut out before another time fires: so two runs of a schedule never
overlap, even if an operator sleeps between two steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from offsite.model.errors import (
    Denied,
    JobNotBegun,
    JobNotFound,
    NoRepository,
    OffsiteError,
    RequestRepeated,
    RestoreRunning,
    TooManyJobs,
    UserError,
)
from offsite.model.journal import decided
from offsite.model.time import format_time
from offsite.operator.decide.schedule import (
    DecisionKind,
    ScheduleSeen,
    ScheduleWanted,
    command_of,
    decide_time,
    is_ahead,
    next_time,
)
from offsite.operator.decide.wanted import Place, Wanted
from offsite.operator.resources.schedule import Action
from offsite.operator.world.job_processes import BY, Jobs
from offsite.operator.world.look import Eyes, history_of
from offsite.operator.world.schedule_runs import ScheduleRun, is_told, last_failure, run_of
from offsite.operator.world.timeline import NotNow, Recorded, Target, Timeline
from offsite.repository.declared.history import Phase
from offsite.services.jobs.ask import JobRequest
from offsite.services.jobs.give_up import job_of_word, withdraw_job
from offsite.services.jobs.status import GIVEN_UP, JobReport, JobState, job_report
from offsite.stores.store import Store

About = Target | NotNow | None
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

    newest: Recorded | None = None
    fired: Recorded | None = None
    runs: list[Recorded] = field(default_factory=list)
    job: JobReport | None = None
    unseen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleHands:
    """The means to observe and execute a schedule. `home`: the store that all operators of the home share."""

    jobs: Jobs
    home: Store

    @property
    def eyes(self) -> Eyes:
        return self.jobs.eyes

    def reconcile(self, wanted: ScheduleWanted, target: About) -> ScheduleStatus:
        """Decide the due time, start its job, and return the status. `target`: subject of a run now; None: no backup
        exists. Raises the errors of an observation: then nothing was decided."""
        problem = "" if target is not None else "there is no backup that it could be about"
        try:
            self._shut_out(wanted, self._look(wanted, target))
            self._decide(wanted, self._look(wanted, target), target)
            self._begin(wanted, self._look(wanted, target), target)
        except (RestoreRunning, TooManyJobs, JobNotBegun, RequestRepeated) as error:
            decided("schedule_waits", why=error.message, uid=wanted.uid)
        except OffsiteError as error:
            problem = f"{error.id}: {error.message}{'; ' if error.hint else ''}{error.hint}"
        runs = max(wanted.history, RUNS_MIN)
        return self._status(wanted, self._look(wanted, target, runs=runs), target, problem)

    def _look(self, wanted: ScheduleWanted, target: About, *, runs: int = 0) -> _Look:
        """Observe, with at least `runs` newest runs."""
        found = _Look()
        for each in Timeline(store=self.home, uid=wanted.uid).newest_first():
            found.newest = found.newest or each
            if each.decided.kind is DecisionKind.FIRED and found.fired is None:
                found.fired = each
                try:
                    found.job = self._job(wanted, each)
                except OffsiteError as error:
                    if not _is_out_of_reach(error, each, target):
                        raise
                    found.unseen = True
            if is_told(each.decided):
                found.runs.append(each)
            if len(found.runs) >= runs and found.fired is not None:
                break
        return found

    def _job(self, wanted: ScheduleWanted, fired: Recorded) -> JobReport | None:
        """Return the job of a fired time; None if the job is not requested yet, or its records were deleted."""
        if fired.target is None:
            return None
        store = self.eyes.open_store(fired.target.place)
        word = word_of(wanted.uid, fired.decided.time_ms)
        job = job_of_word(store, kind=wanted.action.value, by=BY, word=word)
        try:
            return None if job is None else job_report(store, job)
        except JobNotFound:
            return None

    def _seen(self, wanted: ScheduleWanted, found: _Look, target: About) -> ScheduleSeen:
        now_ms = self.home.now_ms()
        return ScheduleSeen(
            newest=found.newest.decided if found.newest else None,
            running=found.job.state if found.job else None,
            is_unasked=_is_unasked(wanted, found, now_ms),
            now_ms=now_ms,
            reason=target.reason if isinstance(target, NotNow) else "",
        )

    def _shut_out(self, wanted: ScheduleWanted, found: _Look) -> None:
        """Shut out the job of the newest fired time, if the job is lost or did not start in time."""
        fired, job = found.fired, found.job
        if fired is None or fired.target is None or found.unseen:
            return
        store = self.eyes.open_store(fired.target.place)
        if job is not None and job.state is JobState.LOST and job.exit_code != GIVEN_UP:
            self.jobs.give_up(store, job.id)
        if job is None and not _may_begin(wanted, fired, self.home.now_ms()):
            word = word_of(wanted.uid, fired.decided.time_ms)
            withdraw_job(store, kind=wanted.action.value, by=BY, word=word, identity=self.eyes.identity)

    def _decide(self, wanted: ScheduleWanted, found: _Look, target: About) -> None:
        next_one = decide_time(wanted, self._seen(wanted, found, target))
        fires = next_one is not None and next_one.kind is DecisionKind.FIRED
        if next_one is None or (fires and target is None):  # a backup may still appear before the deadline
            return
        timeline, behind = Timeline(store=self.home, uid=wanted.uid), found.newest.seq if found.newest else 0
        about = target if fires and isinstance(target, Target) else None
        if timeline.append(next_one, about, behind=behind):
            decided("schedule", why=next_one.kind.value, uid=wanted.uid, time=format_time(next_one.time_ms))
            timeline.prune(but=found.fired.seq if found.fired else behind)

    def _begin(self, wanted: ScheduleWanted, found: _Look, target: About) -> None:
        """Request the job of the newest fired time, if no operator has. If the subject is another backup by now, the
        time waits until its deadline passes."""
        fired = found.fired
        if fired is None or fired.target is None or not _is_unasked(wanted, found, self.home.now_ms()):
            return
        if fired.target != target or found.newest is None or wanted.suspend:
            return
        request = JobRequest(
            kind=wanted.action.value,
            arguments=command_of(wanted, fired.target.backup),
            backup=fired.target.backup,
            by=BY,
            cluster=fired.target.cluster,
        )
        self.jobs.begin(fired.target.place, request, word=word_of(wanted.uid, fired.decided.time_ms))

    def _status(self, wanted: ScheduleWanted, found: _Look, target: About, problem: str) -> ScheduleStatus:
        now_ms = self.home.now_ms()

        def job_of(each: Recorded) -> JobReport | None:
            return found.job if each is found.fired and not found.unseen else self._job(wanted, each)

        runs = [run_of(each, job_of, deadline_ms=wanted.deadline_ms, now_ms=now_ms) for each in found.runs]
        return ScheduleStatus(
            last_ms=found.fired.decided.time_ms if found.fired else None,
            next_ms=next_time(wanted, self._seen(wanted, found, target)),
            runs=tuple(runs[: wanted.history]),
            problem=problem,
            failure=last_failure(runs),
            clock=_wrong_clock(found, now_ms),
            is_running=any(each.is_ongoing for each in runs),
        )


def word_of(uid: str, time_ms: int) -> str:
    """The idempotency key of the job of a time."""
    return f"schedule-{uid}-{format_time(time_ms)}"


def target_of(eyes: Eyes, schedule: ScheduleWanted, backup: Wanted) -> About:
    """Return the subject of a run now: the live low-level backup of a declared backup, in its place; for a drill also
    the newest stopped one. None: no such backup. Raises `DamagedObject`, and the errors of the store."""
    store = eyes.open_store(backup.place)
    history = history_of(store, backup.ledger)
    is_drill = schedule.action is Action.DRILL
    low = history.live or (history.there[-1] if history.there and is_drill else None)
    if low is None:
        return None
    name = low.beginning.backup
    if low.phase is Phase.PAUSED and not is_drill:
        return NotNow(reason=f"{name} is paused: nothing is copied")
    if not _may_be_whole(eyes, backup.place, store, name):
        return NotNow(reason=f"{name} has not copied everything once")
    return Target(place=backup.place, backup=name, cluster=schedule.cluster if is_drill else low.beginning.cluster)


def _may_be_whole(eyes: Eyes, place: Place, store: Store, backup: str) -> bool:
    """Whether the backup may be whole. True for a damaged backup: a run reports the damage."""
    try:
        return eyes.facts.of(place, store, backup).is_whole
    except OffsiteError:
        return True


def _may_begin(wanted: ScheduleWanted, fired: Recorded, now_ms: int) -> bool:
    """Whether a fired time is recent enough to start now, if no operator has requested its job."""
    time_ms = fired.decided.time_ms
    return now_ms - time_ms <= wanted.deadline_ms and not is_ahead(time_ms, now_ms=now_ms)


def _is_unasked(wanted: ScheduleWanted, found: _Look, now_ms: int) -> bool:
    """Whether the newest fired time may still start. True if the job cannot be looked up."""
    return found.fired is not None and found.job is None and _may_begin(wanted, found.fired, now_ms)


def _is_out_of_reach(error: OffsiteError, fired: Recorded, target: About) -> bool:
    """Whether a repository is permanently closed, or replaced by another one: the schedule does not wait for such a
    repository. A silent repository in use may have a running job."""
    if isinstance(error, UserError | NoRepository | Denied):
        return True
    return isinstance(target, Target) and fired.target is not None and fired.target.place != target.place


def _wrong_clock(found: _Look, now_ms: int) -> str:
    """Report a decision in the future, until another time is decided."""
    for each in (found.newest, *found.runs[:1]):
        if each is not None and is_ahead(each.decided.time_ms, now_ms=now_ms):
            wrong, now = format_time(each.decided.time_ms), format_time(now_ms)
            return f"something was decided for {wrong}, and it is {now}: a clock is, or was, wrong; it goes on from now"
    return ""
