"""What the consistent cut of a checkpoint leaves out, and why; the class of each topic."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.cut.cut import TopicClass
from offsite.model.errors import NoSuchRestorePoint
from offsite.repository.backup import Backup
from offsite.repository.snapshots.commit_cut import CommitCut, get_commit_cut
from offsite.repository.snapshots.participant import CheckpointParticipant
from offsite.services.checkpoint.status import Checkpoints, CheckpointStatus, check_exists
from offsite.services.cut_report import LeftOutReport, report_left_out


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """A partition whose cut is not as it was copied: it ends at offset `end` (exclusive) instead of `copied`, and
    `transactions` of it are left out, none of which has a record before offset `floor`."""

    topic: str
    partition: int
    copied: int
    end: int
    floor: int
    transactions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a restore of a checkpoint leaves out. `has_cut`: a consistent cut was found when it was taken; without one
    all is restored as it was copied. `refused` says why the cut must not be used, and is empty where it may. `left_out`
    names the first of `left_out_count` groups of transactions; `groups`: how many offsets of groups differ from those
    that were stored. `participants`: who saved a state of its own for it, and what
    that had read."""

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
    """Raises `NoSuchRestorePoint` where it is not there, or has no restore point; `DamagedObject`, `DamagedCommit`."""
    report = check_exists(Checkpoints(backup).report(checkpoint))
    if not report.commit:
        why = f": {report.failure_reason}" if report.failure_reason else ""
        raise NoSuchRestorePoint(
            f"checkpoint {checkpoint} of backup {report.backup} is {report.status}{why}; it has no restore point",
            hint="see those that have one with: offsite checkpoint list",
        )
    state = backup.state_at(report.commit)
    cut = CommitCut() if state.cut is None else get_commit_cut(backup.store, state.cut)
    topics = sorted({each.topic for each in report.details})
    known = dict(cut.classes)
    reached = {(each.topic, each.partition): each.end for each in report.details}
    return Explanation(
        backup=report.backup,
        id=checkpoint,
        status=report.status,
        commit=report.commit,
        has_cut=state.cut is not None,
        refused=cut.refused,
        classes=tuple((topic, known.get(topic, str(TopicClass.UNCOORDINATED.value))) for topic in topics),
        partitions=tuple(
            HeldBack(
                topic=each.partition_id.topic,
                partition=each.partition_id.partition,
                copied=reached.get((each.partition_id.topic, each.partition_id.partition), -1),
                end=each.end,
                floor=each.floor,
                transactions=len(each.markers),
            )
            for each in cut.partitions
        ),
        groups=len(cut.groups),
        left_out=tuple(report_left_out(each) for each in cut.left_out),
        left_out_count=cut.left_out_count,
        notes=cut.notes,
        participants=cut.participants or report.participants,
    )
