"""Deletes a checkpoint: a note records the deletion first, and a commit drops its restore point afterwards. A crash in
between leaves a deleted checkpoint with a restore point; deleting again drops the point."""

from __future__ import annotations

from offsite.checkpoint.ask import make_note
from offsite.checkpoint.participants import Participants
from offsite.checkpoint.status import NO_COMMIT, CheckpointReport, Checkpoints, CheckpointStatus, check_exists
from offsite.model.errors import CheckpointNeeded, CommitLost
from offsite.model.ids import random_id
from offsite.model.uninterrupted import uninterrupted
from offsite.repository.backup import Backup
from offsite.repository.checkpoint_records import CheckpointEvent, CheckpointRecords
from offsite.repository.commit import CommitChanges
from offsite.repository.local_memory import LetGoMemory
from offsite.repository.snapshots.audit_record import POINTS, Deletion, note_deletions
from offsite.repository.state import BackupState
from offsite.upkeep.retention.apply import ATTEMPTS
from offsite.upkeep.retention.kept_points import pin_holds
from offsite.upkeep.retention.plan import points_in_use

BY = "checkpoint delete"


def delete_checkpoint(backup: Backup, checkpoint: int, *, participants: Participants | None = None) -> CheckpointReport:
    """Delete a checkpoint and return its report. The restore point is dropped too, unless it is the newest point of the
    backup: the newest point stays, without the checkpoint, until retention drops the point. A checkpoint that is only
    requested will never be taken; a process beginning with the checkpoint at the same moment makes a plain restore
    point. `participants` delete their parts.

    Raises `NoSuchRestorePoint`; `CheckpointNeeded` while the checkpoint is being taken, the point is pinned or a
    restore reads the point; `ParticipantFailed`; and `CommitLost` when other writers are faster again and again.
    """
    report = check_exists(Checkpoints(backup).report(checkpoint))
    _check_not_needed(backup, report)
    if report.status is not CheckpointStatus.DELETED:
        note = make_note(backup, checkpoint, writer=random_id(16), reason=BY)
        CheckpointRecords.of(backup).put(note, CheckpointEvent.DELETED)
    if participants:
        participants.delete(checkpoint)
    _drop(backup, report.commit)
    return Checkpoints(backup).report(checkpoint)


def _check_not_needed(backup: Backup, report: CheckpointReport) -> None:
    if report.status is CheckpointStatus.ONGOING:
        raise CheckpointNeeded(
            f"checkpoint {report.id} is in progress", hint="wait for its end: offsite checkpoint show ID"
        )
    if report.commit != NO_COMMIT:
        _check_point_not_needed(backup, backup.state(), report.commit)


def _check_point_not_needed(backup: Backup, head: BackupState, commit: int) -> None:
    now_ms = backup.store.now_ms()
    if any(pin.seq == commit and pin_holds(pin, now_ms=now_ms) for pin in head.pins):
        raise CheckpointNeeded(
            f"commit {commit} of this checkpoint is pinned",
            hint=f"remove the pin first: offsite retention unpin --commit {commit}",
        )
    if commit in points_in_use(backup):
        raise CheckpointNeeded(f"a restore reads commit {commit} of this checkpoint", hint="wait for its end")


def _drop(backup: Backup, commit: int) -> None:
    for _ in range(ATTEMPTS - 1):
        try:
            return _drop_once(backup, commit)
        except CommitLost:
            continue
    return _drop_once(backup, commit)


def _drop_once(backup: Backup, commit: int) -> None:
    head = backup.state()
    if not _is_older_point(head, commit):
        return
    _check_point_not_needed(backup, head, commit)  # a user may have come meanwhile: the point stays
    writer = random_id(16)
    gone = (Deletion(kind=POINTS, what=f"commit {commit}", rule=BY, bytes=0),)
    note_deletions(backup.store, backup.layout, gone, by=BY, commit=head.seq, writer=writer)
    with uninterrupted():
        after = backup.commit(
            head.carry_over(CommitChanges(forgotten=((commit, commit + 1),))), base=head, writer=writer
        )
    LetGoMemory(backup=backup).note_made(after)


def _is_older_point(head: BackupState, commit: int) -> bool:
    return head.history.find(commit) is not None and head.history[-1].seq != commit
