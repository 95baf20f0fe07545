"""Views: status, backups, restore points, groups and checkpoints. From the store alone: Kafka may be gone.

The doctor checks for common problems, from the host and with the settings of the coordinator. No Spark starts here:
a Spark takes seconds and the memory of a JVM, and a process holds only one. Checks with Spark are skipped, with a
hint. One examination of a repository runs at a time: an examination contacts all brokers, and writes objects into the
store.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response

from offsite.checkpoint.explain import Explanation, explain_checkpoint
from offsite.checkpoint.status import CheckpointList, CheckpointReport, Checkpoints, check_exists
from offsite.doctor.examine import Examination, examine
from offsite.doctor.parts import DoctorRequest, Parts
from offsite.groups.report import ShownGroups, show_groups
from offsite.metastore.status import MetastoreStatusReport
from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import TooManyJobs
from offsite.model.selection import ALL_GROUPS
from offsite.overview.comparison import SourceComparison
from offsite.overview.contents import BackupDetail, BackupList, list_backups, show_backup
from offsite.overview.declared import DeclaredList
from offsite.overview.status import Status
from offsite.serve.answers import answer
from offsite.serve.site import SOURCE, ClusterAddress, Site
from offsite.serve.v1.requests import (
    PROBLEMS,
    BackupName,
    CheckpointId,
    CommitNumber,
    TheCaller,
    TheSite,
)
from offsite.upkeep.retention.pins import PinnedPoint, pinned_points

router = APIRouter(responses=PROBLEMS)

MostTopics = Annotated[
    int | None,
    Query(ge=0, le=100_000, description="Maximum number of topics beside their source, the worst first; default: all."),
]
SkippedTopics = Annotated[int, Query(ge=0, le=MAX_OFFSET, description="Number of topics to skip, the worst first.")]
Most = Annotated[int, Query(ge=1, le=10_000, description="Maximum number, the newest first.")]


@router.get("/status", response_model=Status)
def status(site: TheSite, topics: MostTopics = None) -> Response:
    """Am I safe? The verdict for each backup, some seconds old at most."""
    status = site.status()
    parts = {backup.backup: backup.source and backup.source.part(topics) for backup in status.backups}
    return answer(status.beside(parts.get))


@router.get("/metastores", response_model=MetastoreStatusReport)
def metastores(site: TheSite) -> Response:
    """The backups of command topics of ksqlDB in the configured folder of this coordinator."""
    return answer(site.metastores())


@router.get("/declared", response_model=DeclaredList)
def declared(site: TheSite) -> Response:
    """The declared backups with a ledger in the repository: the decisions, and the processes that hold the leases."""
    return answer(site.declared())


@router.get("/backups", response_model=BackupList)
def backups(site: TheSite) -> Response:
    """The backups of the repository."""
    return answer(list_backups(site.repository()))


@router.get("/backups/{backup}", response_model=BackupDetail)
def backup(site: TheSite, backup: BackupName, commit: CommitNumber = None, points: Most = 100) -> Response:
    """The content of a backup: topics, partitions, holes, its newest restore points."""
    detail = show_backup(site.cached_backup(backup), commit=commit)
    return answer(replace(detail, restore_points=tuple(detail.restore_points[-points:])))


@router.get("/backups/{backup}/source", response_model=SourceComparison)
def source(site: TheSite, backup: BackupName, topics: MostTopics = None, skip: SkippedTopics = 0) -> Response:
    """The topics of a backup beside the living source, as of the newest look. Asks no cluster."""
    site.backup(backup)
    return answer(site.source(backup).part(topics, skip))


@router.get("/backups/{backup}/groups", response_model=ShownGroups)
def groups(site: TheSite, caller: TheCaller, backup: BackupName, commit: CommitNumber = None) -> Response:
    """The consumer groups of a backup, and their lag. Metadata of offsets only with the right to records: applications
    write any content there."""
    shown = show_groups(site.cached_backup(backup), groups=ALL_GROUPS, commit=commit)
    return answer(shown if caller.records and not caller.scope.topics else shown.without_metadata())


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


@router.get("/doctor", response_model=Examination)
def doctor(site: TheSite) -> Response:
    """Run all checks that do not need Spark, like `offsite doctor --no-spark -o json`. Takes seconds, or a
    minute if a server does not answer. A read-only coordinator writes nothing into the store."""
    site.scope.check_whole("the doctor looks at everything", by=site.caller)
    if not site.examining.acquire(blocking=False):
        raise TooManyJobs("a check is already running", hint="wait until it has ended, and send the request again")
    try:
        request = make_request(site)
        return answer(examine(request, parts=Parts(request, make_cluster=site.cluster)))
    finally:
        site.examining.release()


def make_request(site: Site) -> DoctorRequest:
    """The examination that this coordinator can make."""
    source = site.settings.addresses.get(SOURCE, ClusterAddress())
    return DoctorRequest(
        repo=site.settings.repo,
        bootstrap=source.bootstrap,
        kafka_config=source.kafka_config,
        spark=site.settings.spark,
        start_spark=False,
        write=not site.settings.read_only,
        metastore=site.settings.metastore,
    )
