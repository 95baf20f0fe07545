"""A schedule brought up to now: what is due is decided and begun, once, whoever operates; and told as it is then.

A time that fires is a job under a word of its own, so whoever decided it and died is followed by the next operator. The
job of a time that could not begin in time, or whose process vanished, is shut out before another time fires: so no two
runs of a schedule go on at once, also when an operator sleeps between any two of its steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from offsite.model.errors import JobNotBegun, JobNotFound, OffsiteError, RequestRepeated, RestoreRunning, TooManyJobs
from offsite.model.journal import decided
from offsite.model.time import format_time
from offsite.operator.decide.schedule import (
    DecisionKind,
    ScheduleSeen,
    ScheduleWanted,
    TimeDecided,
    command_of,
    decide_time,
    next_time,
)
from offsite.operator.decide.wanted import Wanted
from offsite.operator.resources.schedule import Action
from offsite.operator.world.job_end import failure_of
from offsite.operator.world.job_processes import BY, Jobs
from offsite.operator.world.look import Eyes, history_of
from offsite.operator.world.timeline import Recorded, Target, Timeline
from offsite.services.jobs.ask import JobRequest
from offsite.services.jobs.give_up import give_up_job, job_of_word, withdraw_job
from offsite.services.jobs.status import GIVEN_UP, JobReport, JobState, job_report
from offsite.stores.store import Store

FORGOTTEN_MS = 12 * 3_600_000
"""A time whose job was not found so long behind its deadline: its records may have been deleted, which nobody may do
within a day. How it ended is not known then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRun:
    """One time of a schedule. `state`: that of its job, or `skipped`, `missed`, `waiting`, `unknown`."""

    time_ms: int
    state: str
    job: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatus:
    """What is told of a schedule. `last_ms`: the newest time that fired; None: none did, as for `next_ms`. `runs`: the
    newest first. `problem`: why it cannot fire as it is; empty: it is reconciled."""

    last_ms: int | None = None
    next_ms: int | None = None
    runs: tuple[ScheduleRun, ...] = ()
    problem: str = ""


@dataclass(slots=True)
class _Look:
    """What one look found: the newest decision, the newest time that fired, and its job."""

    newest: Recorded | None = None
    fired: Recorded | None = None
    runs: list[Recorded] = field(default_factory=list)
    job: JobReport | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleHands:
    """What a schedule is looked at and carried out with. `home`: the store that all operators of this home share."""

    jobs: Jobs
    home: Store

    @property
    def eyes(self) -> Eyes:
        return self.jobs.eyes

    def reconcile(self, wanted: ScheduleWanted, target: Target | None) -> ScheduleStatus:
        """Decide what is due, begin it, tell. `target`: what a run of now would be about, None: there is no backup for
        it. Raises what a look raises: then nothing is known, and nothing was decided."""
        problem = "" if target is not None else "there is no backup that it could be about"
        try:
            self._shut_out(wanted, self._look(wanted))
            self._decide(wanted, self._look(wanted), target)
            self._begin(wanted, self._look(wanted), target)
        except (RestoreRunning, TooManyJobs, JobNotBegun, RequestRepeated) as error:
            decided("schedule_waits", why=error.message, uid=wanted.uid)
        except OffsiteError as error:
            problem = f"{error.id}: {error.message}{'; ' if error.hint else ''}{error.hint}"
        return self._status(wanted, self._look(wanted, runs=wanted.history), problem)

    def _look(self, wanted: ScheduleWanted, *, runs: int = 0) -> _Look:
        """With so many runs, the newest ones, or more."""
        found = _Look()
        for each in Timeline(store=self.home, uid=wanted.uid).newest_first():
            found.newest = found.newest or each
            if each.decided.kind is DecisionKind.FIRED and found.fired is None:
                found.fired, found.job = each, self._job(wanted, each)
            if each.decided.kind.is_run:
                found.runs.append(each)
            if len(found.runs) >= runs and found.fired is not None:
                break
        return found

    def _job(self, wanted: ScheduleWanted, fired: Recorded) -> JobReport | None:
        """None where it is not asked for, or its records were deleted."""
        if fired.target is None:
            return None
        store = self.eyes.open_store(fired.target.place)
        word = word_of(wanted.uid, fired.decided.time_ms)
        job = job_of_word(store, kind=wanted.action.value, by=BY, word=word)
        try:
            return None if job is None else job_report(store, job)
        except JobNotFound:
            return None

    def _seen(self, wanted: ScheduleWanted, found: _Look) -> ScheduleSeen:
        now_ms = self.home.now_ms()
        return ScheduleSeen(
            newest=found.newest.decided if found.newest else None,
            running=found.job.state if found.job else None,
            is_unasked=_is_unasked(wanted, found, now_ms),
            now_ms=now_ms,
        )

    def _shut_out(self, wanted: ScheduleWanted, found: _Look) -> None:
        """Of the newest time that fired: what is lost, or has not begun in time, begins no more."""
        fired, job = found.fired, found.job
        if fired is None or fired.target is None:
            return
        store, age_ms = self.eyes.open_store(fired.target.place), self.home.now_ms() - fired.decided.time_ms
        if job is not None and job.state is JobState.LOST and job.exit_code != GIVEN_UP:
            give_up_job(store, job.id, identity=self.eyes.identity)
        if job is None and age_ms > wanted.deadline_ms:
            word = word_of(wanted.uid, fired.decided.time_ms)
            withdraw_job(store, kind=wanted.action.value, by=BY, word=word, identity=self.eyes.identity)

    def _decide(self, wanted: ScheduleWanted, found: _Look, target: Target | None) -> None:
        next_one = decide_time(wanted, self._seen(wanted, found))
        fires = next_one is not None and next_one.kind is DecisionKind.FIRED
        if next_one is None or (fires and target is None):  # it may still come, until its deadline
            return
        timeline, behind = Timeline(store=self.home, uid=wanted.uid), found.newest.seq if found.newest else 0
        if timeline.append(next_one, target if fires else None, behind=behind):
            decided("schedule", why=next_one.kind.value, uid=wanted.uid, time=format_time(next_one.time_ms))
            timeline.prune(but=found.fired.seq if found.fired else behind)

    def _begin(self, wanted: ScheduleWanted, found: _Look, target: Target | None) -> None:
        """The job of the newest time that fired, if nobody has asked for it. Where the backup is another one by now, it
        waits until it is too late."""
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

    def _status(self, wanted: ScheduleWanted, found: _Look, problem: str) -> ScheduleStatus:
        now_ms = self.home.now_ms()
        return ScheduleStatus(
            last_ms=found.fired.decided.time_ms if found.fired else None,
            next_ms=next_time(wanted, self._seen(wanted, found)),
            runs=tuple(self._run(wanted, each, now_ms) for each in found.runs[: wanted.history]),
            problem=problem,
        )

    def _run(self, wanted: ScheduleWanted, each: Recorded, now_ms: int) -> ScheduleRun:
        time_ms, told = each.decided.time_ms, _left_out(each.decided)
        match each.decided.kind:
            case DecisionKind.SKIPPED:
                return ScheduleRun(time_ms=time_ms, state="skipped", message=f"the run before was not over{told}")
            case DecisionKind.FIRED:
                return self._fired(wanted, each, now_ms)
            case _:
                said = f"it could not begin within its deadline{told}"
                return ScheduleRun(time_ms=time_ms, state="missed", message=said)

    def _fired(self, wanted: ScheduleWanted, each: Recorded, now_ms: int) -> ScheduleRun:
        time_ms, told = each.decided.time_ms, _left_out(each.decided).removeprefix("; ")
        job = self._job(wanted, each)
        if job is None:
            is_late = now_ms - time_ms > wanted.deadline_ms
            return ScheduleRun(time_ms=time_ms, state="unknown" if is_late else "waiting", message=told)
        if job.state is JobState.CANCELLED and not job.arguments:  # withdrawn
            is_forgotten = job.asked_at_ms - time_ms > wanted.deadline_ms + FORGOTTEN_MS
            said = "" if is_forgotten else "it could not begin within its deadline"
            return ScheduleRun(time_ms=time_ms, state="unknown" if is_forgotten else "missed", message=said)
        failure = failure_of(job.said)
        said = f"{failure.id}: {failure.message}" if failure else job.problem or told
        return ScheduleRun(time_ms=time_ms, state=job.state.value, job=job.id, message=said)


def word_of(uid: str, time_ms: int) -> str:
    """The idempotency word of the job of a time."""
    return f"schedule-{uid}-{format_time(time_ms)}"


def target_of(eyes: Eyes, schedule: ScheduleWanted, backup: Wanted) -> Target | None:
    """What a run of now is about: the live low-level backup of a declared one, in its place; for a drill also the
    newest one that was stopped. None: there is none. Raises `DamagedObject`, and what the store raises."""
    history = history_of(eyes.open_store(backup.place), backup.uid)
    newest = history.there[-1] if history.there and schedule.action is Action.DRILL else None
    low = history.live or newest
    if low is None:
        return None
    cluster = schedule.cluster if schedule.action is Action.DRILL else low.beginning.cluster
    return Target(place=backup.place, backup=low.beginning.backup, cluster=cluster)


def _is_unasked(wanted: ScheduleWanted, found: _Look, now_ms: int) -> bool:
    """Whether the newest time that fired may still begin."""
    fired = found.fired
    return fired is not None and found.job is None and now_ms - fired.decided.time_ms <= wanted.deadline_ms


def _left_out(of: TimeDecided) -> str:
    if not of.left_out:
        return ""
    return f"; {of.left_out} earlier time{'s' if of.left_out > 1 else ''} left out, several were due at once"
