"""Checkpoints in the form of Zeebe's management API. Pure.

Zeebe's partitions are integers from 1; Kafka's have topics. So every partition of a checkpoint is numbered in the order
of topics and partitions, and has `topic` and `partition` in addition. Keys without a value are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from offsite.checkpoint.status import CheckpointPartition, CheckpointReport, CheckpointStatus
from offsite.model.units import format_time
from offsite.model.version import __version__

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
