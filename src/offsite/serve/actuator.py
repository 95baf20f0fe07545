"""`/actuator/backups` and `/actuator/backupRuntime`: take, show and delete checkpoints like Zeebe's backups. A program
that drives Zeebe's backups drives offsite.

Status codes as in Zeebe: 400 for an invalid id, 409 if the same or a higher id exists, 502 without an answer of the
cluster, 503 without an answer of the store, 504 if no partition started in time; a repeated request with the same
id then gets 409, because the id is known. Unlike in Zeebe, states come from the store only: works without the
cluster.

Zeebe's partitions are integers from 1; Kafka's have topics. So every partition of a checkpoint is numbered in the
order of topics and partitions, and has `topic` and `partition` in addition. Keys without a value are left out.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, Field

from offsite.checkpoint.request import delete_checkpoint, request_checkpoint
from offsite.checkpoint.serve import is_free
from offsite.checkpoint.status import CheckpointPartition, CheckpointReport, Checkpoints, CheckpointStatus
from offsite.model.bounds import MAX_OFFSET, whole_number
from offsite.model.errors import BackupNotFound, BadOption, CheckpointIdUsed, OffsiteError
from offsite.model.names import amount
from offsite.model.plain import plain
from offsite.model.selection import to_arguments
from offsite.model.units import format_time
from offsite.model.version import __version__
from offsite.repository.backup import Backup
from offsite.serve.answers import STATUS_MEANINGS, answer, status_of
from offsite.serve.site import SOURCE, Site
from offsite.serve.tokens import Caller
from offsite.serve.v1.jobs import begin_job, make_job_request
from offsite.serve.v1.requests import TheCaller, TheSite

_STATES = {
    CheckpointStatus.DOES_NOT_EXIST: "DOES_NOT_EXIST",
    CheckpointStatus.REQUESTED: "IN_PROGRESS",
    CheckpointStatus.ONGOING: "IN_PROGRESS",
    CheckpointStatus.COMPLETED: "COMPLETED",
    CheckpointStatus.FAILED: "FAILED",
    CheckpointStatus.INCOMPLETE: "INCOMPLETE",
    CheckpointStatus.DELETED: "DELETED",
}
_TYPE = "MANUAL_BACKUP"

PREFIXES = ("/actuator/backups", "/actuator/backupRuntime")
STARTS_WITHIN_S = 60.0
LOOK_S = 0.5
_LISTED_MAX = 1_000
_WAITING = threading.BoundedSemaphore(8)
"""Requests that may wait for a start at once: each uses a thread, of about forty in the server."""
_PREFIX = re.compile(r"(\d{0,19})\*")
_MEANINGS = {
    **STATUS_MEANINGS,
    400: "no id, or no matching backup",
    404: "there is no such checkpoint",
    409: "the same or a higher id exists, or the checkpoint is needed",
    422: "stored data is damaged",
    502: "the cluster did not answer",
    503: "the store did not answer, or no process takes checkpoints",
    504: "no partition has started in time",
}


def backup_info(report: CheckpointReport) -> dict[str, Any]:
    """One checkpoint, as answered by `GET /actuator/backups/{id}`."""
    failure = {"failureReason": report.failure_reason} if report.failure_reason else {}
    return {
        "backupId": report.id,
        "state": state_of(report.status),
        **failure,
        "details": [_partition(number, progress, report) for number, progress in _numbered(report)],
    }


def runtime_state(reports: Sequence[CheckpointReport]) -> dict[str, Any]:
    """The newest checkpoint, the newest complete checkpoint, by partition, and the restorable range, as answered by
    `GET …/state`. `reports`: with details, newest first."""
    complete = [report for report in reports if report.status is CheckpointStatus.COMPLETED]
    return {
        "checkpointStates": [row for report in reports[:1] for row in _states(report)],
        "backupStates": [row for report in complete[:1] for row in _states(report)],
        "ranges": _ranges(complete),
    }


def state_of(status: CheckpointStatus) -> str:
    return _STATES[status]


def _partition(number: int, at: CheckpointPartition, report: CheckpointReport) -> dict[str, Any]:
    failure = {"failureReason": report.failure_reason} if report.failure_reason else {}
    times = {"createdAt": report.taken_at_ms, "lastUpdatedAt": max(report.committed_at_ms, report.taken_at_ms)}
    return {
        "partitionId": number,
        "state": state_of(at.status),
        **failure,
        **{name: format_time(value) for name, value in times.items() if value >= 0},
        **({"checkpointPosition": at.end} if at.end >= 0 else {}),
        "brokerVersion": __version__,
        "topic": at.topic,
        "partition": at.partition,
    }


def _states(report: CheckpointReport) -> Iterable[dict[str, Any]]:
    for number, progress in _numbered(report):
        yield {
            "partitionId": number,
            "checkpointId": report.id,
            "checkpointType": _TYPE,
            "checkpointPosition": progress.end,
            "checkpointTimestamp": format_time(max(0, report.taken_at_ms)),
            "topic": progress.topic,
            "partition": progress.partition,
        }


def _ranges(complete: Sequence[CheckpointReport]) -> list[dict[str, Any]]:
    """Every partition of the newest complete checkpoint, from the oldest complete checkpoint with the partition."""
    if not complete:
        return []
    oldest: dict[tuple[str, int], dict[str, Any]] = {}
    for report in complete:
        oldest |= {_key(row): row for row in _states(report)}
    newest = list(_states(complete[0]))
    return [{"partitionId": end["partitionId"], "start": oldest[_key(end)], "end": end} for end in newest]


def _key(shown: dict[str, Any]) -> tuple[str, int]:
    return shown["topic"], shown["partition"]


def _numbered(report: CheckpointReport) -> Iterable[tuple[int, CheckpointPartition]]:
    return enumerate(sorted(report.details, key=lambda progress: (progress.topic, progress.partition)), 1)


class ActuatorMessage(BaseModel):
    """The outcome, for people."""

    message: str


class TakeBackup(BaseModel):
    """`backupId`: higher than all earlier ids, including failed and deleted ones."""

    backupId: Annotated[int, Field(description="from 1 on")]  # noqa: N815  # Zeebe's name


class PartitionInfo(BaseModel):
    """One partition of a checkpoint, numbered from 1 in the order of topics and partitions."""

    partitionId: int  # noqa: N815
    state: str
    failureReason: str | None = None  # noqa: N815
    createdAt: str | None = None  # noqa: N815
    lastUpdatedAt: str | None = None  # noqa: N815
    checkpointPosition: int | None = None  # noqa: N815
    brokerVersion: str  # noqa: N815
    topic: str
    partition: int


class BackupInfo(BaseModel):
    backupId: int  # noqa: N815
    state: str
    failureReason: str | None = None  # noqa: N815
    details: list[PartitionInfo]


class RuntimeState(BaseModel):
    checkpointStates: list[dict[str, Any]]  # noqa: N815
    backupStates: list[dict[str, Any]]  # noqa: N815
    ranges: list[dict[str, Any]]


router = APIRouter(
    responses={code: {"model": ActuatorMessage, "description": meaning} for code, meaning in _MEANINGS.items()},
    tags=["Zeebe's management API"],
)

Id = Annotated[str, Path(max_length=40, description="An id, or a prefix of ids followed by `*`.")]


@router.post("", status_code=202, response_model=ActuatorMessage)
def take(site: TheSite, caller: TheCaller, body: TakeBackup) -> Response:
    """Take a checkpoint: answers when every partition has started."""
    checkpoint_id = body.backupId
    if not 0 < checkpoint_id <= MAX_OFFSET:
        return answer_message(
            HTTPStatus.BAD_REQUEST, f"A backupId must be from 1 to {MAX_OFFSET}, not {checkpoint_id}."
        )
    if not _WAITING.acquire(blocking=False):
        return answer_message(HTTPStatus.SERVICE_UNAVAILABLE, "Too many wait for a backup to start: try again.")
    try:
        return _taken(site, caller, _the_backup(site), checkpoint_id)
    finally:
        _WAITING.release()


@router.get("", response_model=list[BackupInfo])
def list_(site: TheSite) -> Response:
    """All checkpoints, newest first, without deleted ones."""
    return _json([backup_info(report) for report in _listed(_the_backup(site))])


@router.get("/state", response_model=RuntimeState)
def state_(site: TheSite) -> Response:
    """The newest checkpoint, the newest complete checkpoint, and the restorable range."""
    return _json(_state(site))


@router.post("/state/sync", response_model=RuntimeState)
def sync(site: TheSite) -> Response:
    """The same as the state: the store is the state, nothing must be synchronized."""
    return _json(_state(site))


@router.get("/{checkpoint}", response_model=BackupInfo | list[BackupInfo])
def show(site: TheSite, checkpoint: Id) -> Response:
    """A checkpoint with its partitions; with `*` all checkpoints with the given prefix of the id."""
    backup = _the_backup(site)
    if match := _PREFIX.fullmatch(checkpoint):
        return _json([backup_info(report) for report in _listed(backup) if str(report.id).startswith(match[1])])
    report = Checkpoints(backup).report(_number(checkpoint))
    if report.status in {CheckpointStatus.DOES_NOT_EXIST, CheckpointStatus.DELETED}:
        return answer_message(HTTPStatus.NOT_FOUND, f"Backup with id {report.id} does not exist")
    return _json(backup_info(report))


@router.delete("/{checkpoint}", status_code=204, response_class=Response)
def delete(site: TheSite, checkpoint: Id) -> Response:
    """Delete a checkpoint with its restore point; 204 also if it does not exist."""
    site.scope.check_all_topics("a checkpoint holds all topics", by=site.caller)
    backup, checkpoint_id = _the_backup(site), _number(checkpoint)
    if Checkpoints(backup).report(checkpoint_id).status is not CheckpointStatus.DOES_NOT_EXIST:
        delete_checkpoint(backup, checkpoint_id, participants=site.participants(backup))
    return Response(status_code=HTTPStatus.NO_CONTENT)


def answer_message(status: HTTPStatus, text: str) -> Response:
    """The form of all other answers."""
    return answer({"message": text}, status)


def answer_error(error: OffsiteError) -> Response:
    status = HTTPStatus.CONFLICT if isinstance(error, CheckpointIdUsed) else status_of(error)
    if isinstance(error, BackupNotFound):
        status = HTTPStatus.BAD_REQUEST  # Zeebe's answer without a configured backup
    return answer_message(status, f"{error.message}; {error.hint}" if error.hint else error.message)


def _the_backup(site: Site) -> Backup:
    """Return the backup of this API. Raises `BadOption` if the choice is ambiguous."""
    if site.settings.backup is not None:
        return site.backup(site.settings.backup)
    names = site.repository().backups()
    if len(names) != 1:
        raise BadOption(
            f"the repository has {amount(len(names), 'backup')}, and this request needs one",
            hint="start the coordinator with --backup NAME",
        )
    return site.backup(names[0])


def _taken(site: Site, caller: Caller, backup: Backup, checkpoint_id: int) -> Response:
    if not Checkpoints(backup).is_being_taken and not _has_source(site):
        return answer_message(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "Nobody takes checkpoints of this backup: no run follows it, and this coordinator has no --bootstrap.",
        )
    if not Checkpoints(backup).is_being_taken:
        site.workers.check_free()  # before the request is recorded: no process would take the checkpoint
    request = request_checkpoint(backup, checkpoint_id, participants=site.participants(backup).names)
    if not request.is_new:
        return answer_message(HTTPStatus.CONFLICT, f"A backup with id {checkpoint_id} is known already.")
    return _started(_await_start(site, caller, backup, checkpoint_id))


def _has_source(site: Site) -> bool:
    place = site.settings.addresses.get(SOURCE)
    return place is not None and place.is_named


def _await_start(site: Site, caller: Caller, backup: Backup, checkpoint: int) -> CheckpointReport:
    """Return the report after every partition started, or after the time limit. Start a process if no other process
    takes checkpoints."""
    until_s, is_begun = site.clock.monotonic_s() + STARTS_WITHIN_S, False
    while (report := Checkpoints(backup).report(checkpoint)).status is CheckpointStatus.REQUESTED:
        if site.clock.monotonic_s() > until_s:
            return report
        if not is_begun and is_free(backup, checkpoint):
            is_begun = True
            name = backup.descriptor.name
            words = {"backup": name, "id": checkpoint, **site.take_arguments()}
            command = ["checkpoint", "take", *to_arguments(words), "--wait"]
            begin_job(site, make_job_request(caller, "checkpoint", name, command), site.cluster_address())
        site.clock.sleep(LOOK_S)
    return report


def _started(report: CheckpointReport) -> Response:
    if report.status is CheckpointStatus.REQUESTED:
        return answer_message(
            HTTPStatus.GATEWAY_TIMEOUT, f"No partition has started backup {report.id} yet: ask for its state."
        )
    if report.status is CheckpointStatus.FAILED:
        return answer_message(HTTPStatus.BAD_GATEWAY, f"Backup {report.id} failed: {report.failure_reason}")
    return answer_message(
        HTTPStatus.ACCEPTED,
        f"A backup with id {report.id} has been scheduled. Use GET {PREFIXES[0]}/{report.id} to monitor the status.",
    )


def _listed(backup: Backup) -> list[CheckpointReport]:
    checkpoints = Checkpoints(backup)
    shown = (
        checkpoint
        for checkpoint in checkpoints.list(most=_LISTED_MAX).checkpoints
        if checkpoint.status is not CheckpointStatus.DELETED
    )
    return [checkpoints.report(checkpoint.id) for checkpoint in shown]


def _state(site: Site) -> dict[str, Any]:
    return runtime_state(_listed(_the_backup(site)))


def _number(text: str) -> int:
    """Return the id. Raises `BadOption` for an invalid id."""
    number = whole_number(text, most=MAX_OFFSET)
    if number is None or number < 1:
        raise BadOption(
            f"{text!r} is not an id of a backup", hint="an id is a number from 1 on; 10* means all ids with this prefix"
        )
    return number


def _json(value: object) -> Response:
    return answer(plain(value))
