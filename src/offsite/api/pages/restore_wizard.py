"""A restore in three steps: choice, plan, proof. No state between the steps: the page of the plan holds the plan, and
its confirmation."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response

from offsite.api.pages.act import Form, begun, begun_before
from offsite.api.pages.again import filled
from offsite.api.pages.forms import listed, number
from offsite.api.pages.templates import page
from offsite.api.site import SOURCE
from offsite.api.v1.context import BackupName, TheCaller, TheSite
from offsite.api.v1.restores import ConfirmableRestore, RestoreBody, check_restore, planned_restore, restore_request
from offsite.api.v1.words import given
from offsite.model.errors import BadOption, OffsiteError

router = APIRouter(include_in_schema=False)


@router.get("/backups/{backup}/restore")
def choose(request: Request, site: TheSite, backup: BackupName) -> Response:
    site.backup(backup)
    return _form(request, backup, filled(request.query_params))


@router.post("/backups/{backup}/restore/plan")
def plan(request: Request, site: TheSite, backup: BackupName, form: Form) -> Response:
    try:
        target = form.get("target", SOURCE)
        found = planned_restore(site, backup, _words(form), target)
    except OffsiteError as error:
        return _form(request, backup, form, f"{error.message}{'; ' if error.hint else ''}{error.hint}")
    return _plan(request, backup, found, target)


@router.post("/backups/{backup}/restore")
def restore(request: Request, site: TheSite, caller: TheCaller, backup: BackupName, form: Form) -> Response:
    told = _planned(form.get("plan", ""))
    words, target = given(told, but=("target", "confirmation")), told.model_dump()["target"]
    asked = restore_request(caller, backup, words, target)
    if (same := begun_before(site, asked, form)) is not None:
        return same  # the second of two clicks: a started restore could not be planned again
    found = planned_restore(site, backup, words, target)
    check_restore(found, words, told.model_dump()["confirmation"])
    if form.get("name", "").strip() != found.plan.cluster_id:
        return _plan(request, backup, found, target, "This is not the name of the cluster: nothing was done.")
    return begun(site, asked, site.place(target), form)


def _plan(request: Request, backup: str, found: ConfirmableRestore, target: str, problem: str = "") -> Response:
    sent = json.dumps({**found.words, "target": target, "confirmation": found.confirmation})
    return page(
        request,
        "restore_plan.html",
        backup=backup,
        plan=found.plan,
        target=target,
        command=found.command,
        sent=sent,
        problem=problem,
    )


def _planned(text: str) -> Any:  # noqa: ANN401  # a model made at run time
    try:
        return RestoreBody.model_validate_json(text)
    except ValueError as error:
        raise BadOption("this is no plan of ours", hint="begin anew with the first step") from error


def _words(form: dict[str, str]) -> dict[str, Any]:
    found = {
        "checkpoint": number(form.get("checkpoint", ""), "checkpoint"),
        "commit": number(form.get("commit", ""), "commit"),
        "at": form.get("at", "").strip() or None,
        **{name: listed(form.get(name, "")) for name in ("topics", "rename", "groups")},
    }
    return {name: value for name, value in found.items() if value is not None}


def _form(request: Request, backup: str, given: dict[str, str], problem: str = "") -> Response:
    clusters = sorted(request.app.state.site.settings.places)
    return page(request, "restore.html", backup=backup, given=given, clusters=clusters, problem=problem)
