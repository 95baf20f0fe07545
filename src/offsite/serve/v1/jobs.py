"""Jobs over HTTP. Backups, checkpoints, checks and drills start as jobs, each the command of the same name. A job is
requested once, started by the coordinator that recorded the request, and answered with its address. Any coordinator
shows, follows and ends all jobs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from offsite.backup.options import BackupWords
from offsite.jobs.ask import (
    SEARCH,
    JobRequest,
    JobTicket,
    cancel_job,
    find_repeated_job,
    record_failed_start,
    request_job,
)
from offsite.jobs.status import JobList, JobReport, no_such_job, read_job, read_jobs
from offsite.jobs.workers import SECRET
from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import BadOption, JobNotBegun
from offsite.model.plain import plain
from offsite.model.selection import to_arguments
from offsite.serve.answers import answer
from offsite.serve.looks import note_look, offsets_of, places_in
from offsite.serve.site import ClusterAddress, Site
from offsite.serve.tokens import Caller
from offsite.serve.v1.requests import (
    PROBLEMS,
    BackupName,
    Body,
    IdempotencyKey,
    TheCaller,
    TheSite,
    sent_words,
    with_words,
)

LOOK_S = 1.0
"""Seconds between two events."""
STREAM_MAX_S = 600.0
"""Seconds after which a stream ends; the client asks again, as browsers do automatically."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBegun:
    """A requested job. `is_new` is false for a repeated request: the job of the first request."""

    job: str
    href: str
    is_new: bool


def begin(site: Site, request: JobRequest, place: ClusterAddress, *, word: str | None) -> Response:
    """Answer 202 with the id of the requested job. Raises `TooManyJobs`, `RequestRepeated`."""
    return answer_begun(site, begin_job(site, request, place, word=word))


def answer_begun(site: Site, ticket: JobTicket) -> Response:
    """Answer 202 with the id of a requested job."""
    job_begun = JobBegun(job=ticket.id, href=site.address(f"/api/v1/jobs/{ticket.id}"), is_new=ticket.is_new)
    response = answer(job_begun, HTTPStatus.ACCEPTED)
    response.headers["Location"] = job_begun.href
    return response


def begin_job(site: Site, request: JobRequest, place: ClusterAddress, *, word: str | None = None) -> JobTicket:
    """The same, as a value. `place`: the cluster of the command. `word`: see `jobs.ask`."""
    store = site.repository().store
    if word is not None and (job := find_repeated_job(store, request, word)) is not None:
        return JobTicket(id=job, is_new=False)
    with site.workers.room():
        ticket = request_job(store, request, word=word)
        if ticket.is_new:
            _begin_process(site, ticket, request, place)
    return ticket


def _begin_process(site: Site, job: JobTicket, request: JobRequest, place: ClusterAddress) -> None:
    try:
        site.workers.begin(job.id, request.arguments, {**site.environment, **place.environment, SECRET: job.secret})
    except JobNotBegun as error:
        record_failed_start(site.repository().store, job, error)
        raise


def answer_repeated(site: Site, request: JobRequest, *, word: str | None) -> Response | None:
    """Return the same answer for a repeated request; None: new request. Called before checks whose result the first
    request may have changed. Raises `RequestRepeated`."""
    if word is None or (job := find_repeated_job(site.repository().store, request, word)) is None:
        return None
    return answer_begun(site, JobTicket(id=job, is_new=False))


def make_job_request(
    caller: Caller, kind: str, backup: str, command: Sequence[str], *, cluster: str = ""
) -> JobRequest:
    if any("\0" in word for word in command):
        raise BadOption("a value contains a NUL character, which a command line cannot pass", hint="remove it")
    return JobRequest(kind=kind, arguments=tuple(command), backup=backup, by=caller.name, cluster=cluster)


router = APIRouter(responses=PROBLEMS)

JobId = Annotated[str, Path(description="Id of the job.", max_length=60)]
Most = Annotated[int, Query(ge=1, le=1_000, description="Maximum number, the newest first.")]


@router.get("/jobs", response_model=JobList)
def jobs(site: TheSite, most: Most = 50) -> Response:
    """The newest jobs, without their results."""
    return answer(read_jobs(site.repository().store, most=most, shows=site.shows_jobs_of))


@router.get("/jobs/{job}", response_model=JobReport)
def job(site: TheSite, caller: TheCaller, job: JobId) -> Response:
    """The progress or the result of a job."""
    return answer(read_job_noted(site, caller, job))


def seen_job(site: Site, job: str, *, with_result: bool = True) -> JobReport:
    """Read a job that the caller may see. Raises `JobNotFound` for another one, and the errors of `read_job`."""
    report = read_job(site.repository().store, job, with_result=with_result)
    if site.shows_jobs_of is not None and not site.shows_jobs_of(report.backup):
        raise no_such_job(job)
    return report


def _is_within(site: Site, report: JobReport) -> bool:
    """Whether a search read topics that the caller may read."""
    words = [word.removeprefix("--topics=") for word in report.arguments if word.startswith("--topics=")]
    return not site.scope.topics or (bool(words) and all(map(site.scope.names_topic, words)))


def read_job_noted(site: Site, caller: Caller, job: str) -> JobReport:
    """Read a job. If the job is a search, its words and its result are parts of records: a caller without the right to
    records gets neither, and otherwise the journal records the look."""
    report = seen_job(site, job)
    if report.kind == SEARCH:
        if not caller.records:
            return report.without_records(f"shown with the right to records alone ({caller.rights}+records)")
        if not _is_within(site, report):
            return report.without_records(f"shown to who may see all its topics ({caller.name}:{site.scope.text})")
        note_look(
            site, caller, f"search results of job {job}", report.backup, offsets=offsets_of(places_in(report.result))
        )
    return report


@router.post("/jobs/{job}/cancel", status_code=202, response_model=JobReport)
def cancel(site: TheSite, caller: TheCaller, job: JobId) -> Response:
    """Cancel a job, like Ctrl-C. Finished work is kept. An ended job does not change."""
    if seen_job(site, job).ended_at_ms < 0:  # the process of a lost job may only be silent
        cancel_job(site.repository().store, job, by=caller.name)
    return answer(read_job_noted(site, caller, job), HTTPStatus.ACCEPTED)


@router.get(
    "/jobs/{job}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "events `job`, each a job without result"}},
)
async def events(request: Request, site: TheSite, job: JobId) -> StreamingResponse:
    """A job as server-sent events, one for each change, until it has ended."""
    first = await run_in_threadpool(_seen, site, job)
    return StreamingResponse(_events(request, site, job, first), media_type="text/event-stream")


async def _events(request: Request, site: Site, job: str, first: JobReport) -> AsyncIterator[str]:
    report, last_sent = first, ""
    for _ in range(int(STREAM_MAX_S / LOOK_S)):
        text = json.dumps(plain(report))
        if text != last_sent:
            yield f"event: job\ndata: {text}\n\n"
            last_sent = text
        if report.state.is_final or await request.is_disconnected():
            return
        await asyncio.sleep(LOOK_S)
        report = await run_in_threadpool(_seen, site, job)


def _seen(site: Site, job: str) -> JobReport:
    return seen_job(site, job, with_result=False)


@with_words(BackupWords)
class BackupRunBody(Body):
    """The options of a backup run."""


class VerificationBody(Body):
    """`deep`: read every byte again. `against`: compare with the topics of the cluster of that name."""

    deep: bool = False
    against: Annotated[str, Field(max_length=60)] | None = None


class DrillBody(Body):
    """`commit`: the restore point to prove, by default the newest, restored into a sandbox. `records`: place of the
    drill's records, from the coordinator's settings."""

    commit: Annotated[int, Field(ge=0, le=MAX_OFFSET)] | None = None
    records: Annotated[str, Field(max_length=1_000)] | None = None


class TakeBody(Body):
    """`id`: higher than all earlier ids; by default the time in ms, or one more."""

    id: Annotated[int, Field(ge=1, le=MAX_OFFSET)] | None = None


@router.post("/backups/{backup}/runs", status_code=202, response_model=JobBegun)
def run(
    site: TheSite, caller: TheCaller, backup: BackupName, body: BackupRunBody, key: IdempotencyKey = None
) -> Response:
    """Copy new records and commit them. The first run of a name creates the backup, for a caller without a limit."""
    site.check_run(backup)
    command = ["backup", "run", *to_arguments({"backup": backup, **sent_words(body)})]
    return begin(site, make_job_request(caller, "backup", backup, command), site.cluster_address(), word=key)


@router.post("/backups/{backup}/checkpoints", status_code=202, response_model=JobBegun)
def take(site: TheSite, caller: TheCaller, backup: BackupName, body: TakeBody, key: IdempotencyKey = None) -> Response:
    """Take a checkpoint: by the run that follows the backup, or by a new process."""
    site.backup(backup)
    command = [
        "checkpoint",
        "take",
        *to_arguments({"backup": backup, **sent_words(body), **site.take_arguments()}),
        "--wait",
    ]
    return begin(site, make_job_request(caller, "checkpoint", backup, command), site.cluster_address(), word=key)


@router.post("/backups/{backup}/verifications", status_code=202, response_model=JobBegun)
def verify(
    site: TheSite, caller: TheCaller, backup: BackupName, body: VerificationBody, key: IdempotencyKey = None
) -> Response:
    """Check that all listed objects exist; `deep`: byte by byte; `against`: and equal to a cluster."""
    site.backup(backup)
    place = ClusterAddress() if body.against is None else site.cluster_address(body.against)
    brokers = place.bootstrap
    if body.against is not None and brokers is None:  # a file names the brokers, but the command needs their names
        brokers = ",".join(map(str, site.cluster(body.against).config.bootstrap))
    command = ["verify", *to_arguments({"backup": backup, "deep": body.deep, "against": brokers})]
    return begin(site, make_job_request(caller, "verify", backup, command), place, word=key)


@router.post("/backups/{backup}/drills", status_code=202, response_model=JobBegun)
def drill(
    site: TheSite, caller: TheCaller, backup: BackupName, body: DrillBody, key: IdempotencyKey = None
) -> Response:
    """Prove that a restore point is restorable, in a temporary sandbox."""
    site.backup(backup)
    if body.records is not None:
        site.check_records_place(body.records)
    command = ["restore", "drill", *to_arguments({"backup": backup, **sent_words(body)}), "--sandbox"]
    return begin(site, make_job_request(caller, "drill", backup, command), ClusterAddress(), word=key)
