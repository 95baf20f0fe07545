"""The knowledge about a checkpoint, from the store alone: the same with the cluster gone.

Only a commit that carries the id completes a checkpoint, and only evidence fails it: a recorded failure, or a commit of
another pass behind the commit that the checkpoint was taken in. After such a commit the checkpoint's own pass can no
longer commit, because every commit number is created once. Silence is no evidence: the status is `incomplete`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from offsite.log.range import PartitionId
from offsite.model.errors import DamagedObject, FormatTooNew, NoSuchRestorePoint
from offsite.model.journal import warned
from offsite.repository.backup import Backup
from offsite.repository.checkpoint_records import CheckpointEvent, CheckpointNote, CheckpointRecords, TakenCheckpoint
from offsite.repository.commit import Checkpoint, StoredCommit
from offsite.repository.lease import ProcessIdentity
from offsite.repository.snapshots.commit_cut import CheckpointParticipant
from offsite.repository.state import BackupState
from offsite.stores.wrapped_store import display_now_ms

NO_COMMIT = 0
LIST_MAX = 20
"""Default number of checkpoints in a list: a screen."""


class CheckpointStatus(StrEnum):
    """The fate of an id."""

    DOES_NOT_EXIST = "doesNotExist"
    REQUESTED = "requested"
    """Requested; no partition has started."""
    ONGOING = "ongoing"
    COMPLETED = "completed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    """Taken, not complete, and nobody is known to work on it."""
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPartition:
    """A partition of a checkpoint: its end, the backed-up offset (at most the end), and its status. Both offsets are -1
    for a partition without a known end."""

    topic: str
    partition: int
    status: CheckpointStatus
    end: int
    reached: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReport:
    """The knowledge about a checkpoint. `taken_at_ms`: when every partition had started (store's clock, epoch ms; -1:
    never), `age_s` seconds ago. `commit`: the restore point, 0 for none. `failure_reason`: set if the checkpoint
    failed, or if a list could not read its records. `deleted_by`: set if deleted. `participants`: states saved by
    participants, with their positions; only together with `details`."""

    backup: str
    id: int
    status: CheckpointStatus
    taken_at_ms: int = -1
    age_s: float = 0.0
    commit: int = NO_COMMIT
    committed_at_ms: int = -1
    failure_reason: str = ""
    deleted_by: str = ""
    partitions: int = 0
    partitions_completed: int = 0
    details: tuple[CheckpointPartition, ...] = ()
    participants: tuple[CheckpointParticipant, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointList:
    """Checkpoints of a backup, newest first, without their partitions. `total`: the number of all checkpoints."""

    backup: str
    total: int
    checkpoints: tuple[CheckpointReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFacts:
    """The facts about an id. `carried`: the checkpoint in its commit; `commit`: that commit where it still is a restore
    point. `passed_by`: the commit of another pass behind it, 0: none is known. `is_passed`: a higher id was taken.
    `is_at_work`: the process that took it shows signs of life."""

    requested: bool = False
    taken_checkpoint: TakenCheckpoint | None = None
    failed: CheckpointNote | None = None
    deleted: CheckpointNote | None = None
    carried: Checkpoint | None = None
    commit: int = NO_COMMIT
    passed_by: int = NO_COMMIT
    is_passed: bool = False
    is_at_work: bool = False


def decide_status(facts: CheckpointFacts) -> CheckpointStatus:
    """The status that the facts prove. Pure."""
    if facts.deleted is not None or (facts.carried is not None and facts.commit == NO_COMMIT):
        return CheckpointStatus.DELETED
    if facts.carried is not None:
        return CheckpointStatus.COMPLETED
    if facts.failed is not None or facts.passed_by != NO_COMMIT:
        return CheckpointStatus.FAILED
    if facts.taken_checkpoint is not None:
        return CheckpointStatus.ONGOING if facts.is_at_work else CheckpointStatus.INCOMPLETE
    if facts.requested:
        return CheckpointStatus.FAILED if facts.is_passed else CheckpointStatus.REQUESTED
    return CheckpointStatus.DOES_NOT_EXIST


def decide_details(
    facts: CheckpointFacts, status: CheckpointStatus, head: BackupState
) -> Iterator[CheckpointPartition]:
    """The partitions of a checkpoint. A partition that is backed up to its end is completed, whatever the rest.
    Pure."""
    missing = status if status is not CheckpointStatus.INCOMPLETE else CheckpointStatus.DOES_NOT_EXIST
    for partition, end in _ends(facts):
        is_kept = status in {CheckpointStatus.COMPLETED, CheckpointStatus.DELETED}
        reached = end if is_kept else min(end, _reached(head, partition))
        reached_status = status if status is CheckpointStatus.DELETED else CheckpointStatus.COMPLETED
        yield CheckpointPartition(
            topic=partition.topic,
            partition=partition.partition,
            status=reached_status if reached == end else missing,
            end=end,
            reached=reached,
        )
    for sick in facts.taken_checkpoint.sick if facts.taken_checkpoint is not None else ():
        yield CheckpointPartition(
            topic=sick.topic, partition=sick.partition, status=CheckpointStatus.FAILED, end=-1, reached=-1
        )


def _ends(facts: CheckpointFacts) -> Iterator[tuple[PartitionId, int]]:
    if facts.carried is not None and facts.carried.ends:
        yield from facts.carried.ends
    elif facts.taken_checkpoint is not None:
        yield from ((taken_end.partition_id, taken_end.end) for taken_end in facts.taken_checkpoint.ends)


def _reached(head: BackupState, partition: PartitionId) -> int:
    position = head.positions.get(partition)
    return position.end if position is not None else 0


class Checkpoints:
    """The checkpoints of a backup, as in the store at a moment."""

    def __init__(self, backup: Backup) -> None:
        self._backup = backup
        self._records = CheckpointRecords.of(backup)
        self._events = dict(
            self._records.events()
        )  # in this order: a process that recorded a taken id and is no longer
        self._at_work = self._holder()  # at work has committed before, or never will
        self._head = backup.sound_state()

    @cached_property
    def _points(self) -> dict[int, int]:
        return {commit.checkpoint: commit.seq for commit in self._head.history if commit.checkpoint >= 0}

    @cached_property
    def _carried(self) -> dict[int, Checkpoint]:
        return {checkpoint.id: checkpoint for checkpoint in self._head.checkpoints}

    @cached_property
    def _now_ms(self) -> int:
        return display_now_ms(self._backup.store)

    @property
    def is_being_taken(self) -> bool:
        """Whether a process takes checkpoints of the backup now."""
        return bool(self._at_work)

    @property
    def ids(self) -> Sequence[int]:
        """All known ids, rising."""
        return sorted({*self._events, *self._carried})

    def list(self, *, most: int = LIST_MAX) -> CheckpointList:
        """The newest checkpoints, at most `most`. A checkpoint with an unreadable note hides no other. Raises
        `DamagedCommit`, `FormatTooNew`."""
        ids = self.ids
        shown = tuple(map(self._line, reversed(ids[-most:])))
        return CheckpointList(backup=self._head.backup, total=len(ids), checkpoints=shown)

    def _line(self, checkpoint: int) -> CheckpointReport:
        try:
            return self.report(checkpoint, with_details=False)
        except DamagedObject as error:  # proves neither a failure nor the contrary
            return CheckpointReport(
                backup=self._head.backup,
                id=checkpoint,
                status=CheckpointStatus.INCOMPLETE,
                failure_reason=f"{error.id}: {error.message}",
            )

    def report(self, checkpoint: int, *, with_details: bool = True) -> CheckpointReport:
        """The report of an id, which need not exist. Raises as `list`."""
        facts = self.facts(checkpoint)
        status = decide_status(facts)
        details = tuple(decide_details(facts, status, self._head))
        taken_at_ms = _taken_at_ms(facts)
        line = self._head.history.find(facts.commit) if facts.commit else None
        return CheckpointReport(
            backup=self._head.backup,
            id=checkpoint,
            status=status,
            taken_at_ms=taken_at_ms,
            age_s=max(0, self._now_ms - taken_at_ms) / 1000 if taken_at_ms >= 0 else 0.0,
            commit=facts.commit,
            committed_at_ms=line.committed_at_ms if line is not None else -1,
            failure_reason=_failure(facts) if status is CheckpointStatus.FAILED else "",
            deleted_by=_deleted_by(facts) if status is CheckpointStatus.DELETED else "",
            partitions=len(details),
            partitions_completed=sum(detail.status is CheckpointStatus.COMPLETED for detail in details),
            details=details if with_details else (),
            participants=self._participants(checkpoint, facts) if with_details else (),
        )

    def facts(self, checkpoint: int) -> CheckpointFacts:
        """The facts about an id. Raises as `list`."""
        events, carried = self._events.get(checkpoint, frozenset()), self._carried.get(checkpoint)
        taken_checkpoint = (
            self._records.taken(checkpoint) if CheckpointEvent.TAKEN in events and carried is None else None
        )
        told_since = (
            {CheckpointEvent.FAILED} if taken_checkpoint is not None else set()
        )  # recorded by a process no longer at work
        failed = self._read_note(checkpoint, CheckpointEvent.FAILED, events | told_since)
        is_open = taken_checkpoint is not None and failed is None
        return CheckpointFacts(
            requested=CheckpointEvent.REQUESTED in events,
            taken_checkpoint=taken_checkpoint,
            failed=failed,
            deleted=self._read_note(checkpoint, CheckpointEvent.DELETED, events),
            carried=self._with_ends(carried),
            commit=self._points.get(checkpoint, NO_COMMIT),
            passed_by=self._passed_by(taken_checkpoint) if taken_checkpoint is not None and is_open else NO_COMMIT,
            is_passed=any(
                other_id > checkpoint and CheckpointEvent.TAKEN in other_events
                for other_id, other_events in self._events.items()
            ),
            is_at_work=taken_checkpoint is not None and is_open and taken_checkpoint.note.writer == self._at_work,
        )

    def _with_ends(self, carried: Checkpoint | None) -> Checkpoint | None:
        """Add the ends of the checkpoint. A state leaves out ends equal to the ends of the commit. The commit itself
        has them. If the commit is gone, the ends come from the note of the taking, which anybody with write access
        could have changed since."""
        if carried is None or carried.ends:
            return carried
        stored = self._backup.log.get(self._points[carried.id]) if carried.id in self._points else None
        if stored is not None and stored.commit.changes.checkpoint is not None:
            return replace(carried, ends=stored.commit.changes.checkpoint.ends)
        taken_checkpoint = self._told_when_taken(carried.id)
        ends = taken_checkpoint.ends if taken_checkpoint is not None else ()
        return replace(carried, ends=tuple((taken_end.partition_id, taken_end.end) for taken_end in ends))

    def _participants(self, checkpoint: int, facts: CheckpointFacts) -> tuple[CheckpointParticipant, ...]:
        """The participants, as recorded when the checkpoint was taken."""
        taken_checkpoint = facts.taken_checkpoint or (
            self._told_when_taken(checkpoint) if facts.carried is not None else None
        )
        return taken_checkpoint.participants if taken_checkpoint is not None else ()

    def _told_when_taken(self, checkpoint: int) -> TakenCheckpoint | None:
        """The record of the taking. None where unreadable: a commit carries the checkpoint, so nothing depends on the
        record."""
        try:
            return self._records.taken(checkpoint)
        except DamagedObject as error:
            warned("checkpoint_unreadable", error=error.id, why=error.message, id=checkpoint)
            return None

    def _holder(self) -> str:
        """The word of the process that takes checkpoints now; empty where none exists, or where unknown."""
        terms = self._records.lease
        try:
            holder = terms.holder(asking=ProcessIdentity.current(), now_ms=self._now_ms)
        except (DamagedObject, FormatTooNew) as error:  # completed, failed and deleted checkpoints do not need it
            warned("checkpoint_lease", error=error.id, why=error.message)
            return ""
        return "" if holder is None else holder.word

    def _read_note(
        self, checkpoint: int, event: CheckpointEvent, events: frozenset[CheckpointEvent]
    ) -> CheckpointNote | None:
        return self._records.note(checkpoint, event) if event in events else None

    def _passed_by(self, taken_checkpoint: TakenCheckpoint) -> int:
        """The first commit behind `taken_checkpoint` that completes a pass. The commit lacks the id, so it belongs to
        another pass, and no commit of the checkpoint's own pass can follow."""
        for seq, stored in self._backup.log.try_read(after=taken_checkpoint.base, upto=self._head.seq):
            if isinstance(stored, StoredCommit):
                changes = stored.commit.changes
                if not changes.incomplete and not changes.is_upkeep:
                    return seq
        return NO_COMMIT


def check_exists(report: CheckpointReport) -> CheckpointReport:
    """Return the report of an existing id. Raises `NoSuchRestorePoint`."""
    if report.status is CheckpointStatus.DOES_NOT_EXIST:
        raise NoSuchRestorePoint(
            f"backup {report.backup} has no checkpoint {report.id}", hint="see them with: offsite checkpoint list"
        )
    return report


def _taken_at_ms(facts: CheckpointFacts) -> int:
    if facts.carried is not None:
        return facts.carried.taken_at_ms
    return facts.taken_checkpoint.note.at_ms if facts.taken_checkpoint is not None else -1


def _failure(facts: CheckpointFacts) -> str:
    if facts.failed is not None:
        return facts.failed.reason
    if facts.passed_by != NO_COMMIT:
        return (
            f"its pass ended without a commit: commit {facts.passed_by} belongs to another pass that continued "
            "without it"
        )
    return "a higher id was taken before this checkpoint began"


def _deleted_by(facts: CheckpointFacts) -> str:
    return facts.deleted.by if facts.deleted is not None else "retention"
