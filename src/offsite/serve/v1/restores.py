"""Restores: planned, confirmed, run as jobs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import APIRouter, Response
from pydantic import Field

from offsite.jobs.ask import JobRequest
from offsite.model.selection import to_arguments
from offsite.model.units import format_time
from offsite.restore.options import RestoreWords, parse_restore
from offsite.restore.plan import prepare_restore
from offsite.restore.plan_report import RestorePlanReport, report_plan
from offsite.serve.answers import answer
from offsite.serve.site import SOURCE, Site
from offsite.serve.tokens import Caller
from offsite.serve.v1.jobs import JobBegun, answer_repeated, begin, make_job_request
from offsite.serve.v1.requests import (
    PROBLEMS,
    BackupName,
    Body,
    ConfirmationText,
    IdempotencyKey,
    TheCaller,
    TheSite,
    check_bounded,
    check_confirmed,
    make_confirmation,
    sent_words,
    with_words,
)

router = APIRouter(responses=PROBLEMS)

Target = Annotated[str, Field(max_length=60, description="Name of the cluster to restore into.")]


@with_words(RestoreWords)
class RestorePlanBody(Body):
    """The options of a restore."""

    target: Target = SOURCE


@with_words(RestoreWords)
class RestoreBody(Body):
    """The options of a restore, as in its plan."""

    target: Target = SOURCE
    confirmation: ConfirmationText


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmableRestore:
    """The plan of a restore, and the inputs to execute the plan: `words` with the `confirmation`. `words`: the
    requested words, with the resolved point: a commit, and absolute times. `command`: the equivalent command."""

    plan: RestorePlanReport
    words: dict[str, Any]
    target: str
    confirmation: str
    command: str


@router.post("/backups/{backup}/restores/plan", response_model=ConfirmableRestore)
def plan(site: TheSite, backup: BackupName, body: RestorePlanBody) -> Response:
    """The effect of a restore, and its confirmation. Changes nothing."""
    return answer(make_restore_plan(site, backup, sent_words(body, but=("target",)), body.target))


@router.post("/backups/{backup}/restores", status_code=202, response_model=JobBegun)
def run(
    site: TheSite, caller: TheCaller, backup: BackupName, body: RestoreBody, key: IdempotencyKey = None
) -> Response:
    """Execute a restore, as a job, if the plan is unchanged."""
    words = sent_words(body, but=("target", "confirmation"))
    request = make_restore_request(caller, backup, words, body.target)
    if (same := answer_repeated(site, request, word=key)) is not None:
        return same
    check_restore(make_restore_plan(site, backup, words, body.target), words, body.confirmation)
    return begin(site, request, site.cluster_address(body.target), word=key)


def make_restore_plan(site: Site, backup: str, words: dict[str, Any], target: str) -> ConfirmableRestore:
    """Make the plan, for any caller. Raises the errors of planning."""
    check_bounded(words)
    site.scope.check_restore(words, by=site.caller)
    if words.get("records") is not None:
        site.check_records_place(words["records"])
    prepared = prepare_restore(
        site.backup(backup).read_only(), site.cluster(target).admin, parse_restore(cast("RestoreWords", words))
    )
    report = report_plan(prepared)
    fixed = _fixed(words, report)
    return ConfirmableRestore(
        plan=report,
        words=fixed,
        target=target,
        confirmation=make_confirmation(report, but=("restore", "newer_commit"), words=fixed, target=target),
        command=shlex.join(["offsite", *make_restore_command(backup, fixed), *site.cluster_options(target)]),
    )


def check_restore(confirmable: ConfirmableRestore, words: dict[str, Any], confirmation: str) -> None:
    """Return if `confirmable`, planned now by `words`, is the confirmed plan: words with an open point would mean
    another point at the start of the job. Raises the errors of `check_confirmed`."""
    check_confirmed(confirmation if words == confirmable.words else "", confirmable.confirmation)


def make_restore_request(caller: Caller, backup: str, words: dict[str, Any], target: str) -> JobRequest:
    """The job of a restore with the words of a plan."""
    return make_job_request(
        caller, "restore", backup, make_restore_command(backup, dict(sorted(words.items()))), cluster=target
    )


def make_restore_command(backup: str, words: dict[str, Any]) -> list[str]:
    return ["restore", "run", *to_arguments({"backup": backup, **words}), "--yes"]


def _fixed(words: dict[str, Any], report: RestorePlanReport) -> dict[str, Any]:
    """The words with the resolved point, so that the same words mean the same a minute later."""
    fixed = {name: value for name, value in words.items() if name != "committed_at"}
    if "checkpoint" not in fixed:
        fixed["commit"] = report.commit
    if "at" in fixed and report.until_ms is not None:
        fixed["at"] = format_time(report.until_ms)
    return dict(sorted(fixed.items()))
