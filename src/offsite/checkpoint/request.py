"""Requests a checkpoint: decides the id, and informs the process that takes checkpoints of the backup. Deletes a
checkpoint.

A request is an object of its own, created once. The process with the lease of the backup's checkpoints sees the
request when next free: a following run before the next round, a `checkpoint take` before its end. Without such a
process, the requester takes the checkpoint itself. Two processes therefore never compete by copying for the same
checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from offsite.checkpoint.participants import Participants
from offsite.checkpoint.status import NO_COMMIT, CheckpointReport, Checkpoints, CheckpointStatus, check_exists
from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import BadOption, CheckpointIdUsed, CheckpointNeeded
from offsite.model.ids import random_id
from offsite.repository.backup import Backup
from offsite.repository.checkpoint_records import CheckpointEvent, CheckpointNote, CheckpointRecords, Stamping
from offsite.repository.commit import CommitChanges
from offsite.repository.lease import ProcessIdentity
from offsite.repository.snapshots.audit_record import POINTS, Deletion
from offsite.repository.state import BackupState
from offsite.upkeep.deletion import commit_on_newest, commit_upkeep
from offsite.upkeep.retention.kept_points import pin_holds
from offsite.upkeep.retention.plan import points_in_use

CHOSEN_MAX = (1 << 53) - 1
"""The highest id that a person may choose: leaves more ids for later requests than any clock or date needs."""
_OWN_BELOW = 1 << 62
"""No id as high as this was ever assigned: an id above does not raise the next one."""
_USED = frozenset({CheckpointStatus.FAILED, CheckpointStatus.DELETED})
_WORDS = {CheckpointStatus.FAILED: "failed", CheckpointStatus.DELETED: "was deleted"}
BY = "checkpoint delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedCheckpoint:
    """The id of a requested checkpoint. `is_new`: this call made the request."""

    id: int
    is_new: bool


def request_checkpoint(
    backup: Backup, chosen: int | None = None, *, participants: Sequence[str] = (), stamping: Stamping | None = None
) -> RequestedCheckpoint:
    """Request the checkpoint with id `chosen`. None: the next id, which is the store's time in epoch ms, or the highest
    known id plus 1. An id that is already requested, taken or complete is returned without a new request. No process
    takes the checkpoint without the `participants`, by name; the checkpoint is opened to applications as `stamping`
    says.

    Raises `CheckpointIdUsed` where the checkpoint failed, was deleted, was requested with another `stamping` or without
    some of `participants`, where a higher id is known, and where no id is left. Raises `BadOption` for an invalid id.
    """
    records, checkpoints = CheckpointRecords.of(backup), Checkpoints(backup)
    highest = highest_id(checkpoints.ids)
    if chosen is None:
        return _ask_next(backup, records, highest, _RequestTerms(tuple(participants), stamping))
    if not 0 < chosen <= CHOSEN_MAX:
        hint = f"choose a number above {highest} and up to {CHOSEN_MAX}, or omit the number"
        raise BadOption(f"{chosen} is not a checkpoint id", hint=hint)
    report = checkpoints.report(chosen)
    if report.status is not CheckpointStatus.DOES_NOT_EXIST:
        terms = _RequestTerms(tuple(participants), stamping)
        return _known(report, highest, records.note(chosen, CheckpointEvent.REQUESTED), terms)
    if chosen < highest:
        raise CheckpointIdUsed(
            f"checkpoint {highest} of backup {backup.descriptor.name} exists, so the lower id {chosen} can no longer "
            "be used",
            hint=_next_hint(highest),
        )
    request = _request(backup, chosen, _RequestTerms(tuple(participants), stamping))
    return RequestedCheckpoint(id=chosen, is_new=records.put(request, CheckpointEvent.REQUESTED))


class _RequestTerms(NamedTuple):
    participants: tuple[str, ...]
    stamping: Stamping | None


def _ask_next(backup: Backup, records: CheckpointRecords, highest: int, terms: _RequestTerms) -> RequestedCheckpoint:
    checkpoint = next_id(backup, highest)
    while not records.put(_request(backup, checkpoint, terms), CheckpointEvent.REQUESTED):
        checkpoint = next_id(backup, checkpoint)  # another request was faster by some ms
    return RequestedCheckpoint(id=checkpoint, is_new=True)


def highest_id(ids: Iterable[int]) -> int:
    """The highest of the known `ids` that the next id must exceed."""
    return max((checkpoint for checkpoint in ids if checkpoint < _OWN_BELOW), default=0)


def next_id(backup: Backup, highest: int) -> int:
    """The id for a checkpoint without a chosen id. `highest`: the highest known id. Raises `CheckpointIdUsed` where
    `highest` is the last possible id."""
    if highest >= MAX_OFFSET:
        raise CheckpointIdUsed(
            f"checkpoint {highest} of backup {backup.descriptor.name} exists, and it has the last possible id",
            hint=(
                "this backup cannot have more checkpoints. Every commit is still a restore point; a new backup "
                "starts with new ids"
            ),
        )
    return max(backup.store.now_ms(), highest + 1)


def _known(
    report: CheckpointReport, highest: int, request: CheckpointNote | None, terms: _RequestTerms
) -> RequestedCheckpoint:
    if report.status in _USED:
        why = f": {report.failure_reason}" if report.failure_reason else ""
        raise CheckpointIdUsed(
            f"checkpoint {report.id} of backup {report.backup} {_WORDS[report.status]}{why}",
            hint=f"each id is used once; {_next_hint(highest)}",
        )
    taking_part = {participant.name for participant in report.participants} | set(
        request.participants if request is not None else ()
    )
    if missing := sorted(set(terms.participants) - taking_part):
        raise CheckpointIdUsed(
            f"checkpoint {report.id} of backup {report.backup} was requested without {', '.join(missing)}",
            hint=f"each id is used once; {_next_hint(highest)}",
        )
    if terms.stamping is not None and (request is None or request.stamping != terms.stamping):
        raise CheckpointIdUsed(
            f"checkpoint {report.id} of backup {report.backup} was requested with other options for participants",
            hint=f"each id is used once; {_next_hint(highest)}",
        )
    return RequestedCheckpoint(id=report.id, is_new=False)


def _next_hint(highest: int) -> str:
    if highest >= MAX_OFFSET:
        return "no id is left in this backup"
    return f"use the next id: offsite checkpoint take --id {highest + 1}, or without --id"


def _request(backup: Backup, checkpoint: int, terms: _RequestTerms) -> CheckpointNote:
    """Make a request. Its random word tells our own lost answer from a foreign request."""
    return replace(
        make_note(backup, checkpoint, writer=random_id(16)), participants=terms.participants, stamping=terms.stamping
    )


def make_note(backup: Backup, checkpoint: int, *, writer: str, reason: str = "") -> CheckpointNote:
    """Make a note about a checkpoint, dated now."""
    return CheckpointNote(
        id=checkpoint,
        at_ms=backup.store.now_ms(),
        by=ProcessIdentity.current().text,
        writer=writer,
        reason=reason,
    )


def delete_checkpoint(backup: Backup, checkpoint: int, *, participants: Participants | None = None) -> CheckpointReport:
    """Delete a checkpoint and return its report. The restore point is dropped too, unless it is the newest point of the
    backup: the newest point stays, without the checkpoint, until retention drops the point. A checkpoint that is only
    requested will never be taken; a process beginning with the checkpoint at the same moment makes a plain restore
    point. `participants` delete their parts.

    Raises `NoSuchRestorePoint`; `CheckpointNeeded` while the checkpoint is being taken, the point is pinned or a
    restore reads the point; `ParticipantFailed`; and `CommitLost` when other writers are faster again and again.

    A note records a deletion first, and a commit drops the restore point afterwards. A crash in between leaves a
    deleted checkpoint with a restore point; deleting again drops the point.
    """
    report = check_exists(Checkpoints(backup).report(checkpoint))
    _check_not_needed(backup, report)
    if report.status is not CheckpointStatus.DELETED:
        note = make_note(backup, checkpoint, writer=random_id(16), reason=BY)
        CheckpointRecords.of(backup).put(note, CheckpointEvent.DELETED)
    if participants:
        participants.delete(checkpoint)
    commit_on_newest(backup, lambda head: _drop_from(backup, head, report.commit))
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


def _drop_from(backup: Backup, head: BackupState, commit: int) -> None:
    if not _is_older_point(head, commit):
        return
    _check_point_not_needed(backup, head, commit)  # a user may have come meanwhile: the point stays
    gone = (Deletion(kind=POINTS, what=f"commit {commit}", rule=BY, bytes=0),)
    commit_upkeep(backup, head, CommitChanges(forgotten=((commit, commit + 1),)), deletions=gone, by=BY)


def _is_older_point(head: BackupState, commit: int) -> bool:
    return head.history.find(commit) is not None and head.history[-1].seq != commit
