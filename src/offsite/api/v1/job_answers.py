"""Jobs over HTTP: requested once, started by the coordinator that recorded the request, answered with their address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from starlette.responses import Response

from offsite.api.answers import answer
from offsite.api.guard.tokens import Caller
from offsite.api.site import Place, Site
from offsite.model.errors import BadOption, JobNotBegun
from offsite.services.jobs.ask import AskedFor, JobRequest, ask_for_job, known_job, tell_not_begun
from offsite.services.jobs.workers import SECRET


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBegun:
    """A requested job. `is_new` is false for a repeated request: the job of the first request."""

    job: str
    href: str
    is_new: bool


def begin(site: Site, request: JobRequest, place: Place, *, word: str | None) -> Response:
    """Answer 202 with the id of the requested job. Raises `TooManyJobs`, `RequestRepeated`."""
    return _begun(begin_job(site, request, place, word=word))


def _begun(asked: AskedFor) -> Response:
    begun = JobBegun(job=asked.id, href=f"/api/v1/jobs/{asked.id}", is_new=asked.is_new)
    response = answer(begun, HTTPStatus.ACCEPTED)
    response.headers["Location"] = begun.href
    return response


def begin_job(site: Site, request: JobRequest, place: Place, *, word: str | None = None) -> AskedFor:
    """The same, as a value. `place`: the cluster of the command. `word`: see `services.jobs.ask`."""
    store = site.repository().store
    if word is not None and (job := known_job(store, request, word)) is not None:
        return AskedFor(id=job, is_new=False)
    with site.workers.room():
        asked = ask_for_job(store, request, word=word)
        if asked.is_new:
            _begin_process(site, asked, request, place)
    return asked


def _begin_process(site: Site, job: AskedFor, request: JobRequest, place: Place) -> None:
    try:
        site.workers.begin(job.id, request.arguments, {**place.environment, SECRET: job.secret})
    except JobNotBegun as error:
        tell_not_begun(site.repository().store, job, error)
        raise


def begun_before(site: Site, request: JobRequest, *, word: str | None) -> Response | None:
    """Return the same answer for a repeated request; None: new request. Called before checks whose result the first
    request may have changed. Raises `RequestRepeated`."""
    if word is None or (job := known_job(site.repository().store, request, word)) is None:
        return None
    return _begun(AskedFor(id=job, is_new=False))


def requested(caller: Caller, kind: str, backup: str, command: Sequence[str], *, cluster: str = "") -> JobRequest:
    if any("\0" in each for each in command):
        raise BadOption("a word holds a NUL character, which no command line can", hint="leave it out")
    return JobRequest(kind=kind, arguments=tuple(command), backup=backup, by=caller.name, cluster=cluster)
