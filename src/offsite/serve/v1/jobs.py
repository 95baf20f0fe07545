"""Jobs: shown, followed, ended. Any coordinator answers for all jobs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from offsite.jobs.ask import SEARCH, cancel_job
from offsite.jobs.status import JobList, JobReport, read_job, read_jobs
from offsite.model.journal import noted
from offsite.model.plain import plain
from offsite.serve.answers import answer
from offsite.serve.guard.tokens import Caller
from offsite.serve.site import Site
from offsite.serve.v1.context import PROBLEMS, TheCaller, TheSite

router = APIRouter(responses=PROBLEMS)

JobId = Annotated[str, Path(description="Id of the job.", max_length=60)]
Most = Annotated[int, Query(ge=1, le=1_000, description="Maximum number, the newest first.")]

LOOK_S = 1.0
"""Seconds between two events."""
STREAM_MAX_S = 600.0
"""Seconds after which a stream ends; the client asks again, as browsers do automatically."""


@router.get("/jobs", response_model=JobList)
def jobs(site: TheSite, most: Most = 50) -> Response:
    """The newest jobs, without their results."""
    return answer(read_jobs(site.repository().store, most=most))


@router.get("/jobs/{job}", response_model=JobReport)
def job(site: TheSite, caller: TheCaller, job: JobId) -> Response:
    """The progress or the result of a job."""
    return answer(read_job_noted(site, caller, job))


def read_job_noted(site: Site, caller: Caller, job: str) -> JobReport:
    """Read a job, and record in the journal that the caller reads search words or records, if the job is a search."""
    report = read_job(site.repository().store, job)
    if report.kind == SEARCH:
        noted("looked", by=caller.name, what=f"search results of job {job}", backup=report.backup)
    return report


@router.post("/jobs/{job}/cancel", status_code=202, response_model=JobReport)
def cancel(site: TheSite, caller: TheCaller, job: JobId) -> Response:
    """Cancel a job, like Ctrl-C. Finished work is kept. An ended job does not change."""
    store = site.repository().store
    if read_job(store, job).ended_at_ms < 0:  # the process of a lost job may only be silent
        cancel_job(store, job, by=caller.name)
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
    return read_job(site.repository().store, job, with_result=False)
