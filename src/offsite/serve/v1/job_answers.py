"""Jobs over HTTP: requested once, started by the coordinator that recorded the request, answered with their address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from starlette.responses import Response

from offsite.jobs.ask import JobRequest, JobTicket, find_repeated_job, record_failed_start, request_job
from offsite.jobs.workers import SECRET
from offsite.model.errors import BadOption, JobNotBegun
from offsite.serve.answers import answer
from offsite.serve.guard.tokens import Caller
from offsite.serve.site import ClusterAddress, Site


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBegun:
    """A requested job. `is_new` is false for a repeated request: the job of the first request."""

    job: str
    href: str
    is_new: bool


def begin(site: Site, request: JobRequest, place: ClusterAddress, *, word: str | None) -> Response:
    """Answer 202 with the id of the requested job. Raises `TooManyJobs`, `RequestRepeated`."""
    return _accepted(begin_job(site, request, place, word=word))


def _accepted(ticket: JobTicket) -> Response:
    job_begun = JobBegun(job=ticket.id, href=f"/api/v1/jobs/{ticket.id}", is_new=ticket.is_new)
    response = answer(job_begun, HTTPStatus.ACCEPTED)
    response.headers["Location"] = job_begun.href
    return response


def begin_job(site: Site, request: JobRequest, place: ClusterAddress, *, word: str | None = None) -> JobTicket:
    """The same, as a value. `place`: the cluster of the command. `word`: see `services.jobs.ask`."""
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
        site.workers.begin(job.id, request.arguments, {**place.environment, SECRET: job.secret})
    except JobNotBegun as error:
        record_failed_start(site.repository().store, job, error)
        raise


def answer_repeated(site: Site, request: JobRequest, *, word: str | None) -> Response | None:
    """Return the same answer for a repeated request; None: new request. Called before checks whose result the first
    request may have changed. Raises `RequestRepeated`."""
    if word is None or (job := find_repeated_job(site.repository().store, request, word)) is None:
        return None
    return _accepted(JobTicket(id=job, is_new=False))


def make_job_request(
    caller: Caller, kind: str, backup: str, command: Sequence[str], *, cluster: str = ""
) -> JobRequest:
    if any("\0" in word for word in command):
        raise BadOption("a value contains a NUL character, which a command line cannot pass", hint="remove it")
    return JobRequest(kind=kind, arguments=tuple(command), backup=backup, by=caller.name, cluster=cluster)
