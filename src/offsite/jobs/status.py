"""The status of jobs from the store alone: any coordinator reports all jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from offsite.jobs.ask import SEARCH
from offsite.model.errors import Damaged, FormatTooNew, JobNotFound, OffsiteError
from offsite.model.untrusted.bounded_json import BadJson, parse_json
from offsite.repository.job import JobCancellation, JobEnd, JobLayout, JobProgress, StoredJobRequest
from offsite.repository.job_records import JobRecords, list_jobs
from offsite.repository.lease import ProcessIdentity
from offsite.stores.store import Store
from offsite.stores.wrapped_store import display_now_ms

START_S = 60.0
"""Seconds after which a job that no process started counts as lost."""
GIVEN_UP = 137
"""The exit code of a job that was given up as lost: no command ends with this code, but a killed process does."""
_INTERRUPTED = frozenset({130, 143})
_PARTIAL = 3


class JobState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    CANCELLING = "cancelling"
    """Told to end, and the process has not ended yet."""
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    """Finished, with holes or with some parts left out: the result names them."""
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    """The process is gone or silent, without an end. The subject of the job shows its progress."""

    @property
    def is_final(self) -> bool:
        """Whether the job is over. A lost job may still write its end, if its process was only silent."""
        return self in {JobState.SUCCEEDED, JobState.PARTIAL, JobState.FAILED, JobState.CANCELLED, JobState.LOST}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """The records of one job. `worker`: the working process with signs of life; empty: none. `had_worker`: a process
    started. `claimed_end`: an end without proof of its writer. `now_ms`: the store's clock."""

    request: StoredJobRequest
    cancellation: JobCancellation | None
    end: JobEnd | None
    worker: str
    had_worker: bool
    now_ms: int
    claimed_end: JobEnd | None = None

    @property
    def is_given_up(self) -> bool:
        """Whether the job was given up, and no process works on the job."""
        return self.claimed_end is not None and self.claimed_end.exit_code == GIVEN_UP and not self.worker


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """The status of a job. Times in epoch ms by the store's clock, -1: never. `arguments`: the command line, without
    repository and cluster. `cluster`: the cluster that the job changes, by its name in coordinators. `result`: the
    output document of the command; None: none. `said`: the last lines for people. `exit_code`: -1 before the end.
    `problem`: damage of the records; then the job counts as lost. `vouched`: only the process of the job could have
    written the end. `claimed`: an unverified claim about the end, which does not count."""

    id: str
    kind: str
    state: JobState
    backup: str
    arguments: tuple[str, ...]
    asked_at_ms: int
    asked_by: str
    cluster: str = ""
    ended_at_ms: int = -1
    cancelled_by: str = ""
    worker: str = ""
    exit_code: int = -1
    progress: JobProgress | None = None
    result: object = None
    said: str = ""
    problem: str = ""
    vouched: bool = False
    claimed: str = ""

    def without_records(self, said: str) -> JobReport:
        """The same without what holds parts of records in a search: words, result and output. `said` takes the place of
        the output."""
        return replace(self, arguments=(), result=None, said=said)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    """The newest jobs first; without results, and searches without their words."""

    jobs: tuple[JobReport, ...]


def decide_state(facts: JobFacts) -> JobState:
    """Return the state of a job. An end by its process takes precedence, and silence is never a success. Any process
    may claim that the job was given up: the claim counts only if no process works on the job, and is no success
    either."""
    if facts.end is not None:
        return _state_of_end(facts.end, was_cancelled=facts.cancellation is not None)
    if facts.is_given_up and facts.claimed_end is not None:
        return _state_of_end(facts.claimed_end, was_cancelled=facts.cancellation is not None)
    if facts.worker:
        return JobState.RUNNING if facts.cancellation is None else JobState.CANCELLING
    is_late = facts.now_ms - facts.request.at_ms > START_S * 1000
    return JobState.LOST if facts.had_worker or is_late else JobState.STARTING


def read_job(store: Store, job: str, *, with_result: bool = True) -> JobReport:
    """Read the status of a job. `with_result`: include result, output, and the words of a search. Raises `JobNotFound`,
    `BadName`, `DamagedObject`, and the errors of the store."""
    return _report(store, job, display_now_ms(store), with_result=with_result)


def read_jobs(store: Store, *, most: int = 50, shows: Callable[[str], bool] | None = None) -> JobList:
    """Read the newest jobs, at most `most`. `shows`: whether jobs of a backup are read, among ten times as many. A job
    that vanished meanwhile is left out, a damaged job is reported. Raises the errors of the store."""
    reports: list[JobReport] = []
    now_ms = display_now_ms(store)
    for job in list_jobs(store, most=most if shows is None else 10 * most, now_ms=now_ms):
        if len(reports) == most:
            break
        try:
            if shows is not None and not shows(_backup_of(store, job)):
                continue
            reports.append(_report(store, job, now_ms, with_result=False))
        except JobNotFound:
            continue
        except (Damaged, FormatTooNew) as error:
            if shows is None:
                reports.append(_unread(job, error))
    return JobList(jobs=tuple(reports))


def _backup_of(store: Store, job: str) -> str:
    request = JobRecords(store=store, layout=JobLayout(job=job)).read_request()
    if request is None:
        raise no_such_job(job)
    return request.backup


def no_such_job(job: str) -> JobNotFound:
    return JobNotFound(f"there is no job {job}", hint="see them with: offsite jobs list")


def _unread(job: str, error: OffsiteError) -> JobReport:
    return JobReport(
        id=job,
        kind="unknown",
        state=JobState.LOST,
        backup="",
        arguments=(),
        asked_at_ms=-1,
        asked_by="",
        problem=f"{error.id}: {error.message}",
    )


def _report(store: Store, job: str, now_ms: int, *, with_result: bool) -> JobReport:
    records = JobRecords(store=store, layout=JobLayout(job=job))
    facts = _facts(records, now_ms)
    end = facts.end or (facts.claimed_end if facts.is_given_up else None)
    return JobReport(
        id=job,
        kind=facts.request.kind,
        state=decide_state(facts),
        backup=facts.request.backup,
        arguments=facts.request.arguments if with_result or facts.request.kind != SEARCH else (),
        asked_at_ms=facts.request.at_ms,
        asked_by=facts.request.by,
        cluster=facts.request.cluster,
        ended_at_ms=end.at_ms if end else -1,
        cancelled_by=facts.cancellation.by if facts.cancellation else "",
        worker=facts.worker,
        exit_code=end.exit_code if end else -1,
        progress=records.read_progress(),
        result=_parsed(records.read_result(facts.end, facts.request)) if facts.end and with_result else None,
        said=end.said if end and with_result else "",
        vouched=facts.end is not None and bool(facts.request.seal),
        claimed=_claim(facts),
    )


def _facts(records: JobRecords, now_ms: int) -> JobFacts:
    request = records.read_request()
    if request is None:
        raise no_such_job(records.layout.job)
    terms = records.layout.lease(records.store)
    holder = terms.holder(asking=ProcessIdentity.current(), now_ms=now_ms)
    return JobFacts(
        request=request,
        cancellation=records.read_cancellation(),
        worker=holder.holder.text if holder else "",
        had_worker=records.store.head(terms.key(1, "claim")) is not None,
        end=records.read_end(request),  # read last: an ended worker wrote its end before releasing the lease
        claimed_end=records.read_claimed_end() if request.seal else None,
        now_ms=now_ms,
    )


def _claim(facts: JobFacts) -> str:
    """Return the unverified claim about the end of a job."""
    if facts.end is not None and not facts.request.seal:
        return "its result is claimed, not confirmed: it comes from an earlier version, or from somebody else"
    if facts.claimed_end is not None and facts.end is None and not facts.is_given_up:
        return f"an end with exit code {facts.claimed_end.exit_code} is claimed, not confirmed: it does not count"
    return ""


def _state_of_end(end: JobEnd, *, was_cancelled: bool) -> JobState:
    if end.exit_code == 0:
        return JobState.SUCCEEDED
    if end.exit_code == _PARTIAL:
        return JobState.PARTIAL
    if end.exit_code == GIVEN_UP:
        return JobState.CANCELLED if was_cancelled else JobState.LOST
    return JobState.CANCELLED if was_cancelled and end.exit_code in _INTERRUPTED else JobState.FAILED


def _parsed(result: bytes) -> object:
    try:
        return parse_json(result) if result else None
    except BadJson:
        return None
