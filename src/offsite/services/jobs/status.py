"""The status of jobs from the store alone: any coordinator reports all jobs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from offsite.model.errors import Damaged, FormatTooNew, JobNotFound, OffsiteError
from offsite.model.untrusted.bounded_json import BadJson, parse_json
from offsite.repository.jobs.layout import JobLayout
from offsite.repository.jobs.record import AskedJob, CancelledJob, EndedJob, JobProgress
from offsite.repository.jobs.records import JobRecords, list_jobs
from offsite.repository.restores.lease import LeaseTerms
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.services.jobs.ask import SEARCH
from offsite.stores.looking_store import reading_now_ms
from offsite.stores.store import Store

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

    asked: AskedJob
    cancelled: CancelledJob | None
    ended: EndedJob | None
    worker: str
    had_worker: bool
    now_ms: int
    claimed: EndedJob | None = None

    @property
    def is_given_up(self) -> bool:
        """Whether the job was given up, and no process works on the job."""
        return self.claimed is not None and self.claimed.exit_code == GIVEN_UP and not self.worker


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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    """The newest jobs first; without results, and searches without their words."""

    jobs: tuple[JobReport, ...]


def decide_state(facts: JobFacts) -> JobState:
    """Return the state of a job. An end by its process takes precedence, and silence is never a success. Any process
    may claim that the job was given up: the claim counts only if no process works on the job, and is no success
    either."""
    if facts.ended is not None:
        return _ended(facts.ended, was_cancelled=facts.cancelled is not None)
    if facts.is_given_up and facts.claimed is not None:
        return _ended(facts.claimed, was_cancelled=facts.cancelled is not None)
    if facts.worker:
        return JobState.RUNNING if facts.cancelled is None else JobState.CANCELLING
    is_late = facts.now_ms - facts.asked.at_ms > START_S * 1000
    return JobState.LOST if facts.had_worker or is_late else JobState.STARTING


def job_report(store: Store, job: str, *, with_result: bool = True) -> JobReport:
    """Read the status of a job. `with_result`: include result, output, and the words of a search. Raises `JobNotFound`,
    `BadName`, `DamagedObject`, and the errors of the store."""
    return _report(store, job, reading_now_ms(store), with_result=with_result)


def job_list(store: Store, *, most: int = 50) -> JobList:
    """Read the newest jobs, at most `most`. A job that vanished meanwhile is left out, a damaged job is reported.
    Raises the errors of the store."""
    found, now_ms = [], reading_now_ms(store)
    for job in list_jobs(store, most=most, now_ms=now_ms):
        try:
            found.append(_report(store, job, now_ms, with_result=False))
        except JobNotFound:
            continue
        except (Damaged, FormatTooNew) as error:
            found.append(_unread(job, error))
    return JobList(jobs=tuple(found))


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
    ended = facts.ended or (facts.claimed if facts.is_given_up else None)
    return JobReport(
        id=job,
        kind=facts.asked.kind,
        state=decide_state(facts),
        backup=facts.asked.backup,
        arguments=facts.asked.arguments if with_result or facts.asked.kind != SEARCH else (),
        asked_at_ms=facts.asked.at_ms,
        asked_by=facts.asked.by,
        cluster=facts.asked.cluster,
        ended_at_ms=ended.at_ms if ended else -1,
        cancelled_by=facts.cancelled.by if facts.cancelled else "",
        worker=facts.worker,
        exit_code=ended.exit_code if ended else -1,
        progress=records.progress(),
        result=_parsed(records.result(facts.ended, facts.asked)) if facts.ended and with_result else None,
        said=ended.said if ended and with_result else "",
        vouched=facts.ended is not None and bool(facts.asked.seal),
        claimed=_claim(facts),
    )


def _facts(records: JobRecords, now_ms: int) -> JobFacts:
    asked = records.asked()
    if asked is None:
        raise JobNotFound(f"there is no job {records.layout.job}", hint="see them with: offsite jobs list")
    terms = LeaseTerms(store=records.store, lease=records.layout.lease)
    holder = terms.holder(asking=ProcessIdentity.mine(), now_ms=now_ms)
    return JobFacts(
        asked=asked,
        cancelled=records.cancelled(),
        worker=holder.holder.text if holder else "",
        had_worker=records.store.head(records.layout.lease.key(1, "claim")) is not None,
        ended=records.ended(asked),  # read last: an ended worker wrote its end before releasing the lease
        claimed=records.claimed() if asked.seal else None,
        now_ms=now_ms,
    )


def _claim(facts: JobFacts) -> str:
    """Return the unverified claim about the end of a job."""
    if facts.ended is not None and not facts.asked.seal:
        return "how it ended is claimed, not vouched for: it is of an earlier version, or somebody else's"
    if facts.claimed is not None and facts.ended is None and not facts.is_given_up:
        return f"an end with exit code {facts.claimed.exit_code} is claimed, not vouched for: it does not count"
    return ""


def _ended(ended: EndedJob, *, was_cancelled: bool) -> JobState:
    if ended.exit_code == 0:
        return JobState.SUCCEEDED
    if ended.exit_code == _PARTIAL:
        return JobState.PARTIAL
    if ended.exit_code == GIVEN_UP:
        return JobState.CANCELLED if was_cancelled else JobState.LOST
    return JobState.CANCELLED if was_cancelled and ended.exit_code in _INTERRUPTED else JobState.FAILED


def _parsed(result: bytes) -> object:
    try:
        return parse_json(result) if result else None
    except BadJson:
        return None
