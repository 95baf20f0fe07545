"""Deletion of restore points and checkpoints, and moves of groups: planned, confirmed, done at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import APIRouter, Response
from pydantic import Field

from offsite.checkpoint.request import delete_checkpoint
from offsite.checkpoint.status import CheckpointReport, Checkpoints, check_exists
from offsite.groups.report import GroupPlanReport, report_groups
from offsite.groups.run import AppliedGroups, GroupsRequest, PlannedGroups, apply_groups, prepare_groups
from offsite.model.bounds import MAX_OFFSET
from offsite.model.clock import SystemClock
from offsite.model.selection import parse_groups
from offsite.model.topic_choices import parse_renames
from offsite.repository.backup import Backup
from offsite.repository.heads import RememberedHead
from offsite.serve.answers import answer
from offsite.serve.site import SOURCE, Site
from offsite.serve.v1.requests import (
    PROBLEMS,
    BackupName,
    Body,
    CheckpointId,
    Confirmation,
    ConfirmationText,
    TheSite,
    check_bounded,
    check_confirmed,
    make_confirmation,
    sent_words,
    with_words,
)
from offsite.stores.open_store import open_store
from offsite.upkeep.retention.apply import apply_retention, check_force, plan_retention
from offsite.upkeep.retention.plan import RetentionPlan
from offsite.upkeep.retention.policy import PolicyWords, parse_policy
from offsite.upkeep.retention.report import RetentionReport, retention_report

router = APIRouter(responses=PROBLEMS)

_OF_ALL_TOPICS = "a restore point holds all topics"

_Time = Annotated[int, Field(ge=0, le=MAX_OFFSET, description="The `now_ms` from the plan.")]


@with_words(PolicyWords)
class RetentionPlanBody(Body):
    """The rules of a retention."""


@with_words(PolicyWords)
class RetentionBody(Body):
    """The rules of a retention, as in its plan."""

    now_ms: _Time
    confirmation: ConfirmationText


class GroupsPlanBody(Body):
    """`groups`: groups to move, all or by patterns. `commit`: the commit. `restore`: the restore whose offset maps
    apply. `rename`: `old=new`. `records`: place of restore records, from the coordinator's settings. `target`: the
    cluster of the groups."""

    groups: Annotated[list[str], Field(max_length=1_000)] | None = None
    restore: Annotated[str, Field(max_length=100)] | None = None
    records: Annotated[str, Field(max_length=1_000)] | None = None
    commit: Annotated[int, Field(ge=0, le=MAX_OFFSET)] | None = None
    rename: Annotated[list[str], Field(max_length=1_000)] | None = None
    target: Annotated[str, Field(max_length=60)] = SOURCE


class GroupsBody(GroupsPlanBody):
    confirmation: ConfirmationText


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmableRetention:
    """The restore points to delete, and the confirmation, to be sent back with the same words and `now_ms`."""

    plan: RetentionReport
    confirmation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmableGroups:
    plan: GroupPlanReport
    confirmation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmableDeletion:
    checkpoint: CheckpointReport
    confirmation: str


@router.post("/backups/{backup}/retention/plan", response_model=ConfirmableRetention)
def plan(site: TheSite, backup: BackupName, body: RetentionPlanBody) -> Response:
    """What the rules would delete now, and what is kept and why. Changes nothing."""
    return answer(make_retention_plan(site, backup, sent_words(body)))


@router.post("/backups/{backup}/retention", response_model=RetentionReport)
def apply(site: TheSite, backup: BackupName, body: RetentionBody) -> Response:
    """Delete the planned restore points, in one commit. A later collection deletes their objects."""
    site.scope.check_all_topics(_OF_ALL_TOPICS, by=site.caller)
    opened, retention_plan = _retention(site, backup, sent_words(body, but=("now_ms", "confirmation")), body.now_ms)
    check_confirmed(body.confirmation, _value_of(retention_report(retention_plan)))
    check_force(retention_plan, force=False)
    applied = apply_retention(opened, retention_plan, clock=SystemClock())
    return answer(retention_report(applied.plan, commit=applied.commit))


@router.post("/backups/{backup}/groups/plan", response_model=ConfirmableGroups)
def plan_groups(site: TheSite, backup: BackupName, body: GroupsPlanBody) -> Response:
    """Where every group would continue. Changes nothing."""
    report = report_groups(_groups(site, site.backup(backup).read_only(), body))
    return answer(ConfirmableGroups(plan=report, confirmation=make_confirmation(report, target=body.target)))


@router.post("/backups/{backup}/groups", response_model=AppliedGroups)
def apply_planned_groups(site: TheSite, backup: BackupName, body: GroupsBody) -> Response:
    """Commit the new position of every group, after recording its present position."""
    planned = _groups(site, site.backup(backup), body)
    check_confirmed(body.confirmation, make_confirmation(report_groups(planned), target=body.target))
    return answer(apply_groups(planned, site.cluster(body.target).admin))


@router.post("/backups/{backup}/checkpoints/{checkpoint}/deletion/plan", response_model=ConfirmableDeletion)
def plan_deletion(site: TheSite, backup: BackupName, checkpoint: CheckpointId) -> Response:
    """A checkpoint, and the confirmation of its deletion. Changes nothing."""
    report = check_exists(Checkpoints(site.backup(backup)).report(checkpoint))
    return answer(ConfirmableDeletion(checkpoint=report, confirmation=_deletion_of(report)))


@router.delete("/backups/{backup}/checkpoints/{checkpoint}", response_model=CheckpointReport)
def delete(site: TheSite, backup: BackupName, checkpoint: CheckpointId, confirmation: Confirmation) -> Response:
    """Delete a checkpoint with its restore point, and with Zeebe's data for the checkpoint; its id is never used
    again."""
    site.scope.check_all_topics(_OF_ALL_TOPICS, by=site.caller)
    opened = site.backup(backup)
    check_confirmed(confirmation, _deletion_of(check_exists(Checkpoints(opened).report(checkpoint))))
    return answer(delete_checkpoint(opened, checkpoint, participants=site.participants(opened)))


def make_retention_plan(site: Site, backup: str, words: dict[str, Any]) -> ConfirmableRetention:
    """Make the plan of now. Raises the errors of planning."""
    _, retention_plan = _retention(site, backup, words, None)
    report = retention_report(retention_plan)
    return ConfirmableRetention(plan=report, confirmation=_value_of(report))


def _retention(site: Site, backup: str, words: dict[str, Any], now_ms: int | None) -> tuple[Backup, RetentionPlan]:
    repository, opened = (
        site.repository(),
        site.cached_backup(backup).read_only() if now_ms is None else site.backup(backup),
    )
    RememberedHead(repository=repository, backup=backup).check(opened, opened.state())
    policy = parse_policy(**cast("PolicyWords", words))
    return opened, plan_retention(opened, policy, clock=SystemClock(), now_ms=now_ms)


def _value_of(report: RetentionReport) -> str:
    return make_confirmation(report, but=("head_commit", "notes", "kept", "kept_points", "kept_bytes", "commit"))


def _groups(site: Site, opened: Backup, body: GroupsPlanBody) -> PlannedGroups:
    check_bounded(sent_words(body))
    site.scope.check_all_topics("groups read several topics", by=site.caller)
    request = GroupsRequest(
        groups=parse_groups(body.groups or ()),
        restore=body.restore,
        commit=body.commit,
        renames=parse_renames(body.rename or ()),
    )
    if body.records is not None:
        opened = opened.with_records_at(open_store(site.check_records_place(body.records)))
    return prepare_groups(opened, site.cluster(body.target).admin, request)


def _deletion_of(report: CheckpointReport) -> str:
    return make_confirmation((report.backup, report.id, report.status, report.commit))
