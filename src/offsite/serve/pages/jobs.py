"""Pages that start, follow and end jobs."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Request, Response
from starlette.responses import RedirectResponse

from offsite.jobs.ask import JobRequest, cancel_job, find_repeated_job
from offsite.jobs.status import JobReport, JobState, read_jobs
from offsite.model.bounds import parse_number
from offsite.model.selection import to_arguments
from offsite.model.units import format_size
from offsite.model.untrusted.bounded_json import BadJson, parse_json
from offsite.repository.job import JobProgress
from offsite.serve.pages.found_records import found_records
from offsite.serve.pages.look import TAGS
from offsite.serve.pages.page import ONCE, page, read_form
from offsite.serve.site import ClusterAddress, Site
from offsite.serve.v1.jobs import JobId, begin_job, make_job_request, read_job_noted, seen_job
from offsite.serve.v1.requests import BackupName, TheCaller, TheSite

FIELDS = ("checkpoint", "commit", "at", "topics", "rename", "groups")
"""The options that the form of a restore is filled in with, by the names of the command's options."""
_CARRIED = ("restore", "run", "--yes")

_SHOWN_MAX = 30_000


def form_path(job: JobReport) -> str:
    """Return the path of the form, without the base of its site, filled in with the words of `job`; empty if the
    restore succeeded, or used words without a form field."""
    if job.kind != "restore" or not job.state.is_final or job.state is JobState.SUCCEEDED:
        return ""
    words = _words(job.arguments)
    backup = words.pop("backup", "")
    if not backup or not words.keys() <= set(FIELDS):
        return ""
    target = {"target": job.cluster} if job.cluster else {}
    return f"/backups/{quote(backup, safe='')}/restore?{urlencode(words | target)}"


def _words(arguments: tuple[str, ...]) -> dict[str, str]:
    words: defaultdict[str, list[str]] = defaultdict(list)
    for argument in arguments:
        if argument not in _CARRIED:
            name, _, text = argument.removeprefix("--").partition("=")
            words[name].append(text)
    return {name: ",".join(texts) for name, texts in words.items()}


router = APIRouter(include_in_schema=False)

Form = Annotated[dict[str, str], Depends(read_form)]


@router.post("/backups/{backup}/runs")
def run(site: TheSite, caller: TheCaller, backup: BackupName, form: Form) -> Response:
    site.backup(backup)  # without topics only an existing backup can continue
    request = make_job_request(caller, "backup", backup, ["backup", "run", f"--backup={backup}"])
    return begin_and_redirect(site, request, site.cluster_address(), form)


@router.post("/backups/{backup}/verifications")
def verify(site: TheSite, caller: TheCaller, backup: BackupName, form: Form) -> Response:
    site.backup(backup)
    return begin_and_redirect(
        site,
        make_job_request(caller, "verify", backup, ["verify", f"--backup={backup}", "--deep"]),
        ClusterAddress(),
        form,
    )


@router.post("/backups/{backup}/drills")
def drill(site: TheSite, caller: TheCaller, backup: BackupName, form: Form) -> Response:
    site.backup(backup)
    request = make_job_request(caller, "drill", backup, ["restore", "drill", f"--backup={backup}", "--sandbox"])
    return begin_and_redirect(site, request, ClusterAddress(), form)


@router.post("/backups/{backup}/checkpoints")
def take(site: TheSite, caller: TheCaller, backup: BackupName, form: Form) -> Response:
    site.backup(backup)
    checkpoint_id = parse_number(form.get("id", ""), "checkpoint")
    command = [
        "checkpoint",
        "take",
        *to_arguments({"backup": backup, "id": checkpoint_id, **site.take_arguments()}),
        "--wait",
    ]
    return begin_and_redirect(
        site, make_job_request(caller, "checkpoint", backup, command), site.cluster_address(), form
    )


@router.get("/jobs")
def jobs(request: Request, site: TheSite) -> Response:
    return page(request, "jobs.html", found=read_jobs(site.repository().store, shows=site.shows_jobs_of), tags=TAGS)


@router.get("/jobs/{job}")
def job(request: Request, site: TheSite, caller: TheCaller, job: JobId) -> Response:
    report = read_job_noted(site, caller, job)
    result = json.dumps(report.result, indent=2) if report.result is not None else ""
    return page(
        request,
        "job.html",
        job=report,
        tags=TAGS,
        command=_command(site, report),
        result=result if len(result) <= _SHOWN_MAX else f"{result[:_SHOWN_MAX]}\n…",
        found=found_records(report, may_see=caller.records),
        said=report.said[-_SHOWN_MAX:],
        proof=_proof(report) if report.vouched else None,
        error=_error(report),
        again=form_path(report),
        rate=_rate(report.progress),
        has_report=has_restore_report(report),
    )


def has_restore_report(job: JobReport) -> bool:
    """Whether the result of the job makes a page to be sent."""
    return job.kind == "restore" and job.vouched and isinstance(job.result, dict) and "verified" in job.result


def _rate(progress: JobProgress | None) -> str:
    """The bytes a second of the present step, once they mean something."""
    if progress is None or progress.elapsed_s < 1 or not progress.moved_bytes:
        return ""
    return f", {format_size(progress.moved_bytes)}, {format_size(progress.moved_bytes / progress.elapsed_s)}/s"


@router.post("/jobs/{job}/cancel")
def cancel(site: TheSite, caller: TheCaller, job: JobId, _: Form) -> Response:
    if seen_job(site, job).ended_at_ms < 0:  # the process of a lost job may only be silent
        cancel_job(site.repository().store, job, by=caller.name)
    return _to(site, job)


def begin_and_redirect(site: Site, request: JobRequest, place: ClusterAddress, form: Mapping[str, str]) -> Response:
    """Start the job of the form, and redirect to the page of the job."""
    return _to(site, begin_job(site, request, place, word=form.get(ONCE) or None).id)


def redirect_repeated(site: Site, request: JobRequest, form: Mapping[str, str]) -> Response | None:
    """Redirect to the page of the job already started by the form; None: not started yet."""
    job = find_repeated_job(site.repository().store, request, form[ONCE]) if form.get(ONCE) else None
    return None if job is None else _to(site, job)


def _to(site: Site, job: str) -> Response:
    return RedirectResponse(site.address(f"/jobs/{job}"), status_code=HTTPStatus.SEE_OTHER)


def _command(site: Site, job: JobReport) -> str:
    """The equivalent command, with the options of the cluster if the coordinator knows the cluster."""
    where = site.cluster_options(job.cluster) if job.cluster in site.settings.addresses else []
    return shlex.join(["offsite", *job.arguments, *where])


def _proof(job: JobReport) -> tuple[bool, str] | None:
    """The proof by a restore, a check or a drill, if the result has a proof."""
    result = job.result if isinstance(job.result, dict) else {}
    if job.kind == "restore" and result.get("verified") is not None:
        records = result.get("records")
        same = "the written records were read back, and equal the backup"
        return bool(
            result["verified"]
        ), f"{records} records: {same if result['verified'] else 'NOT equal to the backup'}."
    if job.kind == "drill" and result.get("proven") is not None:
        return bool(result["proven"]), "Proven by a restore." if result["proven"] else "Not proven."
    if job.kind == "verify" and "ok" in result:
        return bool(result["ok"]), "Everything exists and is unchanged." if result["ok"] else "Damage was found."
    return None


def _error(job: JobReport) -> dict[str, str]:
    """The final error document of the command: the last line of its output."""
    try:
        last = parse_json(job.said.rstrip().splitlines()[-1].encode())
    except (BadJson, LookupError):
        return {}
    error = last.get("error") if isinstance(last, dict) else None
    return {str(name): str(value) for name, value in error.items()} if isinstance(error, dict) else {}
