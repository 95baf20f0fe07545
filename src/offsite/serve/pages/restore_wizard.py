"""A restore in three steps: choice, plan, proof. No state between the steps: the page of the plan holds the plan, and
its confirmation."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response

from offsite.model.errors import BadOption, OffsiteError
from offsite.serve.pages.act import Form, begin_and_redirect, redirect_repeated
from offsite.serve.pages.again import prefilled_fields
from offsite.serve.pages.forms import parse_number, split_list
from offsite.serve.pages.templates import page
from offsite.serve.site import SOURCE
from offsite.serve.v1.context import BackupName, TheCaller, TheSite
from offsite.serve.v1.restores import (
    ConfirmableRestore,
    RestoreBody,
    check_restore,
    make_restore_plan,
    make_restore_request,
)
from offsite.serve.v1.words import sent_words

router = APIRouter(include_in_schema=False)


@router.get("/backups/{backup}/restore")
def choose(request: Request, site: TheSite, backup: BackupName) -> Response:
    site.backup(backup)
    return _form(request, backup, prefilled_fields(request.query_params))


@router.post("/backups/{backup}/restore/plan")
def plan(request: Request, site: TheSite, backup: BackupName, form: Form) -> Response:
    try:
        target = form.get("target", SOURCE)
        confirmable = make_restore_plan(site, backup, _words(form), target)
    except OffsiteError as error:
        return _form(request, backup, form, f"{error.message}{'; ' if error.hint else ''}{error.hint}")
    return _plan(request, backup, confirmable, target)


@router.post("/backups/{backup}/restore")
def restore(request: Request, site: TheSite, caller: TheCaller, backup: BackupName, form: Form) -> Response:
    confirmed = _planned(form.get("plan", ""))
    words, target = sent_words(confirmed, but=("target", "confirmation")), confirmed.model_dump()["target"]
    job_request = make_restore_request(caller, backup, words, target)
    if (same := redirect_repeated(site, job_request, form)) is not None:
        return same  # the second of two clicks: a started restore could not be planned again
    confirmable = make_restore_plan(site, backup, words, target)
    check_restore(confirmable, words, confirmed.model_dump()["confirmation"])
    if form.get("name", "").strip() != confirmable.plan.cluster_id:
        return _plan(request, backup, confirmable, target, "This is not the id of the cluster: nothing was done.")
    return begin_and_redirect(site, job_request, site.cluster_address(target), form)


def _plan(request: Request, backup: str, confirmable: ConfirmableRestore, target: str, problem: str = "") -> Response:
    sent = json.dumps({**confirmable.words, "target": target, "confirmation": confirmable.confirmation})
    return page(
        request,
        "restore_plan.html",
        backup=backup,
        plan=confirmable.plan,
        target=target,
        command=confirmable.command,
        sent=sent,
        problem=problem,
    )


def _planned(text: str) -> Any:  # noqa: ANN401  # a model made at run time
    try:
        return RestoreBody.model_validate_json(text)
    except ValueError as error:
        raise BadOption("this plan is not from this server", hint="begin again with the first step") from error


def _words(form: dict[str, str]) -> dict[str, Any]:
    words = {
        "checkpoint": parse_number(form.get("checkpoint", ""), "checkpoint"),
        "commit": parse_number(form.get("commit", ""), "commit"),
        "at": form.get("at", "").strip() or None,
        **{name: split_list(form.get(name, "")) for name in ("topics", "rename", "groups")},
    }
    return {name: value for name, value in words.items() if value is not None}


def _form(request: Request, backup: str, fields: dict[str, str], problem: str = "") -> Response:
    clusters = sorted(request.app.state.site.settings.addresses)
    return page(request, "restore.html", backup=backup, given=fields, clusters=clusters, problem=problem)
