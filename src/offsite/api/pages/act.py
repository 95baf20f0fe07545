"""Pages that begin jobs, follow and end them."""

from __future__ import annotations

import json
import shlex
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from starlette.responses import RedirectResponse

from offsite.api.pages.forms import form_of, number
from offsite.api.pages.look import TAGS
from offsite.api.pages.templates import page
from offsite.api.site import Place, Site
from offsite.api.v1.context import BackupName, TheCaller, TheSite
from offsite.api.v1.job_answers import begin_job, requested
from offsite.api.v1.jobs import JobId
from offsite.api.v1.words import arguments
from offsite.services.jobs.ask import JobRequest, cancel_job
from offsite.services.jobs.status import JobReport, job_list, job_report

router = APIRouter(include_in_schema=False)

Form = Annotated[dict[str, str], Depends(form_of)]
_SHOWN_MAX = 30_000


@router.post("/backups/{backup}/runs")
def run(site: TheSite, caller: TheCaller, backup: BackupName, _: Form) -> Response:
    site.backup(backup)  # without its topics only a backup that is there can go on
    return begun(site, requested(caller, "backup", backup, ["backup", "run", f"--backup={backup}"]), site.place())


@router.post("/backups/{backup}/verifications")
def verify(site: TheSite, caller: TheCaller, backup: BackupName, _: Form) -> Response:
    site.backup(backup)
    return begun(site, requested(caller, "verify", backup, ["verify", f"--backup={backup}", "--deep"]), Place())


@router.post("/backups/{backup}/drills")
def drill(site: TheSite, caller: TheCaller, backup: BackupName, _: Form) -> Response:
    site.backup(backup)
    return begun(
        site, requested(caller, "drill", backup, ["restore", "drill", f"--backup={backup}", "--sandbox"]), Place()
    )


@router.post("/backups/{backup}/checkpoints")
def take(site: TheSite, caller: TheCaller, backup: BackupName, form: Form) -> Response:
    site.backup(backup)
    wanted = number(form.get("id", ""), "checkpoint")
    command = ["checkpoint", "take", *arguments({"backup": backup, "id": wanted}), "--wait"]
    return begun(site, requested(caller, "checkpoint", backup, command), site.place())


@router.get("/jobs")
def jobs(request: Request, site: TheSite) -> Response:
    return page(request, "jobs.html", found=job_list(site.repository().store), tags=TAGS)


@router.get("/jobs/{job}")
def job(request: Request, site: TheSite, job: JobId) -> Response:
    found = job_report(site.repository().store, job)
    result = json.dumps(found.result, indent=2) if found.result is not None else ""
    return page(
        request,
        "job.html",
        job=found,
        tags=TAGS,
        command=shlex.join(["offsite", *found.arguments]),
        result=result if len(result) <= _SHOWN_MAX else f"{result[:_SHOWN_MAX]}\n…",
        said=found.said[-_SHOWN_MAX:],
        proof=_proof(found),
        error=_error(found),
    )


@router.post("/jobs/{job}/cancel")
def cancel(site: TheSite, caller: TheCaller, job: JobId, _: Form) -> Response:
    store = site.repository().store
    if not job_report(store, job).state.is_final:
        cancel_job(store, job, by=caller.name)
    return RedirectResponse(f"/jobs/{job}", status_code=HTTPStatus.SEE_OTHER)


def begun(site: Site, request: JobRequest, place: Place) -> Response:
    """The way to the page of a job that was begun for this."""
    asked = begin_job(site, request, place)
    return RedirectResponse(f"/jobs/{asked.id}", status_code=HTTPStatus.SEE_OTHER)


def _proof(job: JobReport) -> tuple[bool, str] | None:
    """What a restore, a check or a drill has shown, where it has told so."""
    result = job.result if isinstance(job.result, dict) else {}
    if job.kind == "restore" and result.get("verified") is not None:
        records = result.get("records")
        same = "what was written was read back, and is what the backup holds"
        return bool(result["verified"]), f"{records} records: {same if result['verified'] else 'NOT what it holds'}."
    if job.kind == "drill" and result.get("proven") is not None:
        return bool(result["proven"]), "Proven by a restore." if result["proven"] else "Not proven."
    if job.kind == "verify" and "ok" in result:
        return bool(result["ok"]), "Everything is there, and as it was written." if result[
            "ok"
        ] else "Damage was found."
    return None


def _error(job: JobReport) -> dict[str, str]:
    """The error document that the command ended with: the last line of what it said."""
    try:
        found = json.loads(job.said.rstrip().splitlines()[-1])["error"]
    except (ValueError, LookupError, TypeError):
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}
