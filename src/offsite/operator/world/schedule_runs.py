"""The results of the times of a schedule, from the decisions and their jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from offsite.jobs.status import JobReport, JobState
from offsite.model.errors import OffsiteError
from offsite.model.units import format_time
from offsite.operator.decide.schedule import DecisionKind, TimeDecision
from offsite.operator.world.job_end import parse_failure
from offsite.operator.world.timeline import RecordedDecision

FORGOTTEN_MS = 12 * 3_600_000
"""If the job of a time is not found so long after its deadline, the records of the job may have been deleted (not
allowed within a day). Then the result is unknown."""
_ONGOING = frozenset({JobState.STARTING, JobState.RUNNING, JobState.CANCELLING})
_BAD = frozenset({JobState.FAILED.value, JobState.LOST.value, JobState.PARTIAL.value, "missed"})
_ENDED = _BAD | {JobState.SUCCEEDED.value, JobState.CANCELLED.value}

JobOf = Callable[[RecordedDecision], JobReport | None]
"""Return the job of a fired time; None if the job is not requested yet, or its records were deleted. Raises
`OffsiteError` if the repository cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRun:
    """One time of a schedule. `state`: state of the job, or `skipped`, `missed`, `waiting`, `unknown`."""

    time_ms: int
    state: str
    job: str = ""
    message: str = ""

    @property
    def is_ongoing(self) -> bool:
        return self.state in _ONGOING


def describe_run(recorded: RecordedDecision, job_of: JobOf, *, deadline_ms: int, now_ms: int) -> ScheduleRun:
    """Describe the result of a decided time."""
    decision, left_out_note = recorded.decision, _left_out(recorded.decision)
    match decision.kind:
        case DecisionKind.FIRED:
            return _fired(recorded, job_of, deadline_ms=deadline_ms, now_ms=now_ms)
        case DecisionKind.SKIPPED:
            why = decision.reason or "the previous run had not ended"
            return ScheduleRun(time_ms=decision.time_ms, state="skipped", message=f"{why}{left_out_note}")
        case DecisionKind.RESUMED:
            times = "1 time" if decision.left_out == 1 else f"{decision.left_out} times"
            said = f"{times} left out: they were due between the suspension and the first check after the resume"
            return ScheduleRun(time_ms=decision.time_ms, state="skipped", message=said)
        case _:
            said = f"it could not start before its deadline{left_out_note}"
            return ScheduleRun(time_ms=decision.time_ms, state="missed", message=said)


def is_shown(decided: TimeDecision) -> bool:
    """Whether a decision is shown among the runs."""
    return decided.kind.is_run or (decided.kind is DecisionKind.RESUMED and decided.left_out > 0)


def last_failure(runs: Iterable[ScheduleRun]) -> str:
    """Return how the newest finished run failed; empty if the run succeeded. `runs`: newest first."""
    newest = next((run for run in runs if run.state in _ENDED), None)
    if newest is None or newest.state not in _BAD:
        return ""
    job = f" (offsite jobs show {newest.job})" if newest.job else ""
    return f"the run of {format_time(newest.time_ms)} {_SAID.get(newest.state, newest.state)}: {newest.message}{job}"


_SAID = {"lost": "was lost", "partial": "was done in part", "missed": "was missed"}


def _fired(recorded: RecordedDecision, job_of: JobOf, *, deadline_ms: int, now_ms: int) -> ScheduleRun:
    time_ms, left_out_note = recorded.decision.time_ms, _left_out(recorded.decision).removeprefix("; ")
    try:
        job = job_of(recorded)
    except OffsiteError as error:
        said = f"its repository cannot be looked into: {error.id}: {error.message}"
        return ScheduleRun(time_ms=time_ms, state="unknown", message=said)
    if job is None:
        is_late = now_ms - time_ms > deadline_ms
        return ScheduleRun(time_ms=time_ms, state="unknown" if is_late else "waiting", message=left_out_note)
    if job.state is JobState.CANCELLED and not job.arguments:  # withdrawn
        is_forgotten = job.asked_at_ms - time_ms > deadline_ms + FORGOTTEN_MS
        said = "" if is_forgotten else "it could not start before its deadline"
        return ScheduleRun(time_ms=time_ms, state="unknown" if is_forgotten else "missed", message=said)
    return ScheduleRun(time_ms=time_ms, state=job.state.value, job=job.id, message=_said(job) or left_out_note)


def _said(job: JobReport) -> str:
    """Return the final error of the command, or the first problem in its result."""
    if (failure := parse_failure(job.said)) is not None:
        return f"{failure.id}: {failure.message}"
    if job.problem:
        return job.problem
    result = job.result if isinstance(job.result, Mapping) else {}
    messages = (result.get("problem"), result.get("findings"), result.get("warnings"))
    first = (message[0] if isinstance(message, list) and message else message for message in messages)
    if said := next((message for message in first if isinstance(message, str) and message), ""):
        return said
    if job.state is JobState.LOST:
        return "its process disappeared"
    return "its command gave no reason" if job.state.value in _BAD else ""


def _left_out(decision: TimeDecision) -> str:
    if not decision.left_out:
        return ""
    return (
        f"; {decision.left_out} earlier time{'s' if decision.left_out > 1 else ''} left out: several were due at once"
    )
