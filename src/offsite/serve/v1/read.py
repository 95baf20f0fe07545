"""Views: status, backups, restore points, groups and checkpoints. From the store alone: Kafka may be gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response

from offsite.checkpoint.explain import Explanation, explain_checkpoint
from offsite.checkpoint.status import CheckpointList, CheckpointReport, Checkpoints, check_exists
from offsite.groups.report import ShownGroups, show_groups
from offsite.metastore.status import MetastoreStatusReport
from offsite.model.selection import ALL_GROUPS
from offsite.overview.contents import BackupDetail, BackupList, list_backups, show_backup
from offsite.overview.declared.status import DeclaredList, read_declared_status
from offsite.overview.status import Status
from offsite.serve.answers import answer
from offsite.serve.guard.roles import AccessRole
from offsite.serve.v1.context import PROBLEMS, BackupName, CheckpointId, CommitNumber, TheCaller, TheSite
from offsite.upkeep.retention.pins import PinnedPoint, pinned_points

router = APIRouter(responses=PROBLEMS)

Most = Annotated[int, Query(ge=1, le=10_000, description="Maximum number, the newest first.")]


@router.get("/status", response_model=Status)
def status(site: TheSite) -> Response:
    """Am I safe? The verdict for each backup, some seconds old at most."""
    return answer(site.status())


@router.get("/metastores", response_model=MetastoreStatusReport)
def metastores(site: TheSite) -> Response:
    """The backups of command topics of ksqlDB in the configured folder of this coordinator."""
    return answer(site.metastores())


@router.get("/declared", response_model=DeclaredList)
def declared(site: TheSite) -> Response:
    """The declared backups with a ledger in the repository: the decisions, and the processes that hold the leases."""
    return answer(read_declared_status(site.repository().store))


@router.get("/backups", response_model=BackupList)
def backups(site: TheSite) -> Response:
    """The backups of the repository."""
    return answer(list_backups(site.repository()))


@router.get("/backups/{backup}", response_model=BackupDetail)
def backup(site: TheSite, backup: BackupName, commit: CommitNumber = None, points: Most = 100) -> Response:
    """The content of a backup: topics, partitions, holes, its newest restore points."""
    detail = show_backup(site.cached_backup(backup), commit=commit)
    return answer(replace(detail, restore_points=tuple(detail.restore_points[-points:])))


@router.get("/backups/{backup}/groups", response_model=ShownGroups)
def groups(site: TheSite, caller: TheCaller, backup: BackupName, commit: CommitNumber = None) -> Response:
    """The consumer groups of a backup, and their lag."""
    shown = show_groups(site.cached_backup(backup), groups=ALL_GROUPS, commit=commit)
    return answer(shown if caller.role >= AccessRole.READ else shown.without_metadata())


@router.get("/backups/{backup}/pins", response_model=list[PinnedPoint])
def pins(site: TheSite, backup: BackupName) -> Response:
    """The pinned restore points: kept in spite of the rules."""
    return answer(pinned_points(site.cached_backup(backup)))


@router.get("/backups/{backup}/checkpoints", response_model=CheckpointList)
def checkpoints(site: TheSite, backup: BackupName, most: Most = 100) -> Response:
    """The checkpoints of a backup, newest first, without their partitions."""
    return answer(Checkpoints(site.cached_backup(backup)).list(most=most))


@router.get("/backups/{backup}/checkpoints/{checkpoint}", response_model=CheckpointReport)
def checkpoint(site: TheSite, backup: BackupName, checkpoint: CheckpointId) -> Response:
    """A checkpoint, and the progress of every partition."""
    return answer(check_exists(Checkpoints(site.cached_backup(backup)).report(checkpoint)))


@router.get("/backups/{backup}/checkpoints/{checkpoint}/explanation", response_model=Explanation)
def explanation(site: TheSite, backup: BackupName, checkpoint: CheckpointId) -> Response:
    """The records that a restore of a checkpoint leaves out, and why; and the guarantee of every topic."""
    return answer(explain_checkpoint(site.cached_backup(backup), checkpoint))
