"""What is known of jobs, from the store alone: any coordinator answers for all."""

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
"""Seconds after which a job that no process has begun is lost."""
GIVEN_UP = 137
"""The exit code that is told of a job that somebody gave up as lost: no command ends with it, a killed process does."""
_INTERRUPTED = frozenset({130, 143})
_PARTIAL = 3


class JobState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    CANCELLING = "cancelling"
    """It is told to end, and its process has not ended yet."""
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    """It finished, with holes or with some parts left out: its result tells which."""
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    """Its process is gone, or silent, and has not told how it ended. What it is about tells how far it came."""

    @property
    def is_final(self) -> bool:
        """Whether it is over. A lost one may still tell its end, when it was only silent."""
        return self in {JobState.SUCCEEDED, JobState.PARTIAL, JobState.FAILED, JobState.CANCELLED, JobState.LOST}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What was found of one job. `worker`: the process that works on it and gives signs of life, empty for none;
    `had_worker`: one has begun. `claimed`: an end that nobody vouches for. `now_ms`: by the store's clock."""

    asked: AskedJob
    cancelled: CancelledJob | None
    ended: EndedJob | None
    worker: str
    had_worker: bool
    now_ms: int
    claimed: EndedJob | None = None

    @property
    def is_given_up(self) -> bool:
        """Whether somebody gave it up, and nobody works on it."""
        return self.claimed is not None and self.claimed.exit_code == GIVEN_UP and not self.worker


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """What is known of a job. Times in epoch ms by the store's clock, -1: never. `arguments`: its command line, without
    where the repository and the cluster are; `cluster`: which one it changes, by the name that coordinators give it.
    `result`: the document that its command printed, None for none; `said`: the last lines of what it said to people.
    `exit_code`: -1 while it has not ended. `problem`: why nothing else is known of it, where its records are damaged;
    then it counts as lost. `vouched`: whether the end is told by the process that was begun for the job, and
    nobody else could have told it. `claimed`: what is said of it by who cannot be told from a stranger, and does not
    count."""

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
    """The newest jobs first; without their results, and searches without their words."""

    jobs: tuple[JobReport, ...]


def decide_state(facts: JobFacts) -> JobState:
    """The state of a job. An end that its process told counts more than all else, and silence is never a success. That
    it was given up, anybody may say: it counts where nobody works on it, and is no success either."""
    if facts.ended is not None:
        return _ended(facts.ended, was_cancelled=facts.cancelled is not None)
    if facts.is_given_up and facts.claimed is not None:
        return _ended(facts.claimed, was_cancelled=facts.cancelled is not None)
    if facts.worker:
        return JobState.RUNNING if facts.cancelled is None else JobState.CANCELLING
    is_late = facts.now_ms - facts.asked.at_ms > START_S * 1000
    return JobState.LOST if facts.had_worker or is_late else JobState.STARTING


def job_report(store: Store, job: str, *, with_result: bool = True) -> JobReport:
    """How a job stands. `with_result`: also its result, what it said, and the words of a search. Raises `JobNotFound`,
    `BadName`, `DamagedObject`, and what the store raises."""
    return _report(store, job, reading_now_ms(store), with_result=with_result)


def job_list(store: Store, *, most: int = 50) -> JobList:
    """At most so many, the newest. One that vanished meanwhile is left out, one whose records are damaged is told of.
    Raises what the store raises."""
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
        ended=records.ended(asked),  # read last: a worker that ended meanwhile has told so before it let the lease go
        claimed=records.claimed() if asked.seal else None,
        now_ms=now_ms,
    )


def _claim(facts: JobFacts) -> str:
    """What is said of the end of a job, and not vouched for."""
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
