"""The decisions about the times of a schedule, in the store of the home, and their results, from the jobs. Decisions
are numbered, create-only, and the newest are kept.

The creator of number n+1 has decided. An operator with an older observation finds the number taken, and observes
again. Hence exactly one of any number of operators decides a time, and no operator decides on an outdated state.
Old decisions are deleted: after a long sleep an operator finds its number free, and sees after its write a higher
number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from offsite.jobs.status import JobReport, JobState
from offsite.model.bounds import MAX_COMMIT_TIME_MS, whole_number
from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.ids import random_id
from offsite.model.names import amount
from offsite.model.units import format_time
from offsite.operator.decide.desired import RepositoryPlace
from offsite.operator.decide.schedule import DecisionKind, TimeDecision
from offsite.operator.world.jobs import parse_failure
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.stores.store import PutResult, Store

PREFIX = "operator/schedules/"
KEPT_DECISIONS = 250
"""Decisions that are kept: more than a status ever shows."""
FORGOTTEN_MS = 12 * 3_600_000
"""If the job of a time is not found so long after its deadline, the records of the job may have been deleted (not
allowed within a day). Then the result is unknown."""
_ONGOING = frozenset({JobState.STARTING, JobState.RUNNING, JobState.CANCELLING})
_BAD = frozenset({JobState.FAILED.value, JobState.LOST.value, JobState.PARTIAL.value, "missed"})
_ENDED = _BAD | {JobState.SUCCEEDED.value, JobState.CANCELLED.value}
_SAID = {"lost": "was lost", "partial": "was done in part", "missed": "was missed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTarget:
    """The low-level backup of a run, and the name of the cluster that the command needs."""

    place: RepositoryPlace
    backup: str
    cluster: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipReason:
    """The reason for no run now. A due time is skipped."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDecision:
    """Decision number `seq`. `target`: the subject of a fired time."""

    seq: int
    decision: TimeDecision
    target: RunTarget | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The decisions about the schedule with that uid. Raises `BadName` for an invalid uid."""

    store: Store
    uid: str

    @property
    def prefix(self) -> str:
        return f"{PREFIX}{DeclaredLayout(uid=self.uid).uid}/"

    def newest_first(self) -> Iterator[RecordedDecision]:
        """Read the decisions, newest first. Raises `DamagedObject`, and the errors of the store, like all methods."""
        for seq in reversed(self._numbers()):
            if (data := self.store.get(self._key(seq))) is not None:
                yield _recorded(data, self._key(seq))

    def append(self, decision: TimeDecision, target: RunTarget | None, *, behind: int) -> bool:
        """Append `decision` after decision number `behind` (0: none); return False if another operator was first."""
        seq = behind + 1
        data = encode_object(
            {
                "format": FORMAT,
                "seq": seq,
                "time_ms": decision.time_ms,
                "kind": decision.kind.value,
                "left_out": decision.left_out,
                "timetable": decision.timetable,
                "reason": decision.reason,
                "account": target.place.account if target else "",
                "repository": target.place.repository if target else "",
                "backup": target.backup if target else "",
                "cluster": target.cluster if target else "",
                "word": random_id(16),
            }
        )
        is_ours = self.store.put_if_absent(self._key(seq), data) is not PutResult.OTHER
        return is_ours and self._numbers()[-1:] == [seq]

    def prune(self, *, but: int) -> None:
        """Delete the oldest decisions, except number `but` and later ones."""
        for seq in [number for number in self._numbers()[:-KEPT_DECISIONS] if number < but]:
            self.store.delete(self._key(seq))

    def _numbers(self) -> list[int]:
        names = (info.key.removeprefix(self.prefix).removesuffix(".json") for info in self.store.list(self.prefix))
        return sorted(number for name in names if (number := whole_number(name)) is not None)

    def _key(self, seq: int) -> str:
        return f"{self.prefix}{seq:012d}.json"


def _recorded(data: bytes, key: str) -> RecordedDecision:
    document = parse_json_object(data, source=key, damaged=DamagedObject)
    kind = document.member("kind", DecisionKind)
    place = RepositoryPlace(account=document.text("account"), repository=document.text("repository"))
    return RecordedDecision(
        seq=document.count("seq"),
        decision=TimeDecision(
            time_ms=document.integer("time_ms", least=0, most=MAX_COMMIT_TIME_MS),
            kind=kind,
            left_out=document.count("left_out"),
            timetable=document.optional_text("timetable") or "",
            reason=document.optional_text("reason") or "",
        ),
        target=RunTarget(place=place, backup=document.text("backup"), cluster=document.text("cluster"))
        if kind is DecisionKind.FIRED
        else None,
    )


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
            times = amount(decision.left_out, "time")
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
    return f"; {amount(decision.left_out, 'earlier time')} left out: several were due at once"
