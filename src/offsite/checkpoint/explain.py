"""Explains the consistent cut of a checkpoint: the left-out records with the reasons, and the class of every topic."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.checkpoint.status import CheckpointReport, Checkpoints, CheckpointStatus, check_exists
from offsite.cut.cut import TopicClass
from offsite.model.errors import NoSuchRestorePoint
from offsite.reports.point_report import LeftOutReport, report_left_out
from offsite.repository.backup import Backup
from offsite.repository.snapshots.commit_cut import CheckpointParticipant, CommitCut, get_commit_cut


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """A partition that the cut changes: it ends at offset `end` (exclusive) instead of `copied`, and `transactions` of
    its transactions are left out, none with a record before offset `floor`."""

    topic: str
    partition: int
    copied: int
    end: int
    floor: int
    transactions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a restore of a checkpoint leaves out. `has_cut`: a consistent cut was found when the checkpoint was taken;
    without a cut everything is restored as copied. `refused`: why the cut must not be used; empty if usable.
    `left_out`: the first of `left_out_count` groups of transactions. `groups`: number of group offsets that differ from
    the stored offsets. `participants`: who saved a state of its own for the checkpoint, and what the state had read."""

    backup: str
    id: int
    status: CheckpointStatus
    commit: int
    has_cut: bool
    refused: str
    classes: tuple[tuple[str, str], ...]
    partitions: tuple[HeldBack, ...]
    groups: int
    left_out: tuple[LeftOutReport, ...]
    left_out_count: int
    notes: tuple[str, ...]
    participants: tuple[CheckpointParticipant, ...] = ()


def explain_checkpoint(backup: Backup, checkpoint: int) -> Explanation:
    """Explain a checkpoint. Raises `NoSuchRestorePoint` where the checkpoint or its restore point does not exist;
    `DamagedObject`, `DamagedCommit`."""
    return explain_report(backup, check_exists(Checkpoints(backup).report(checkpoint)))


def explain_report(backup: Backup, report: CheckpointReport) -> Explanation:
    """Explain the checkpoint of a report that was just read. Raises as `explain_checkpoint`."""
    if not report.commit:
        why = f": {report.failure_reason}" if report.failure_reason else ""
        raise NoSuchRestorePoint(
            f"checkpoint {report.id} of backup {report.backup} is {report.status}{why}; it has no restore point",
            hint="see checkpoints with a restore point: offsite checkpoint list",
        )
    state = backup.state_at(report.commit)
    cut = CommitCut() if state.cut is None else get_commit_cut(backup.store, state.cut)
    topics = sorted({detail.topic for detail in report.details})
    topic_classes = dict(cut.classes)
    reached = {(detail.topic, detail.partition): detail.end for detail in report.details}
    return Explanation(
        backup=report.backup,
        id=report.id,
        status=report.status,
        commit=report.commit,
        has_cut=state.cut is not None,
        refused=cut.refused,
        classes=tuple((topic, topic_classes.get(topic, str(TopicClass.UNCOORDINATED.value))) for topic in topics),
        partitions=tuple(
            HeldBack(
                topic=partition.partition_id.topic,
                partition=partition.partition_id.partition,
                copied=reached.get((partition.partition_id.topic, partition.partition_id.partition), -1),
                end=partition.end,
                floor=partition.floor,
                transactions=len(partition.markers),
            )
            for partition in cut.partitions
        ),
        groups=len(cut.groups),
        left_out=tuple(report_left_out(left_out) for left_out in cut.left_out),
        left_out_count=cut.left_out_count,
        notes=cut.notes,
        participants=cut.participants or report.participants,
    )
