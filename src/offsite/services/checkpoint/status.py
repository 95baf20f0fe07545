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

from offsite.model.errors import DamagedObject, FormatTooNew, NoSuchRestorePoint
from offsite.model.journal import warned
from offsite.repository.backup import Backup
from offsite.repository.checkpoints.marker import TakenCheckpoint, ToldCheckpoint
from offsite.repository.checkpoints.records import CheckpointRecords, Told
from offsite.repository.commit import Checkpoint, PartitionId, StoredCommit
from offsite.repository.restores.lease import LeaseTerms
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.repository.snapshots.participant import CheckpointParticipant
from offsite.repository.state import BackupState
from offsite.stores.looking_store import reading_now_ms

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
class PartitionProgress:
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
    details: tuple[PartitionProgress, ...] = ()
    participants: tuple[CheckpointParticipant, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointList:
    """Checkpoints of a backup, newest first, without their partitions. `total`: the number of all checkpoints."""

    backup: str
    total: int
    checkpoints: tuple[CheckpointReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts about an id. `carried`: the checkpoint in its commit; `commit`: that commit where it still is a restore
    point. `passed_by`: the commit of another pass behind it, 0: none is known. `is_passed`: a higher id was taken.
    `is_at_work`: the process that took it shows signs of life."""

    requested: bool = False
    taken: TakenCheckpoint | None = None
    failed: ToldCheckpoint | None = None
    deleted: ToldCheckpoint | None = None
    carried: Checkpoint | None = None
    commit: int = NO_COMMIT
    passed_by: int = NO_COMMIT
    is_passed: bool = False
    is_at_work: bool = False


def decide_status(facts: Facts) -> CheckpointStatus:
    """The status that the facts prove. Pure."""
    if facts.deleted is not None or (facts.carried is not None and facts.commit == NO_COMMIT):
        return CheckpointStatus.DELETED
    if facts.carried is not None:
        return CheckpointStatus.COMPLETED
    if facts.failed is not None or facts.passed_by != NO_COMMIT:
        return CheckpointStatus.FAILED
    if facts.taken is not None:
        return CheckpointStatus.ONGOING if facts.is_at_work else CheckpointStatus.INCOMPLETE
    if facts.requested:
        return CheckpointStatus.FAILED if facts.is_passed else CheckpointStatus.REQUESTED
    return CheckpointStatus.DOES_NOT_EXIST


def decide_details(facts: Facts, status: CheckpointStatus, head: BackupState) -> Iterator[PartitionProgress]:
    """The partitions of a checkpoint. A partition that is backed up to its end is completed, whatever the rest.
    Pure."""
    missing = status if status is not CheckpointStatus.INCOMPLETE else CheckpointStatus.DOES_NOT_EXIST
    for each, end in _ends(facts):
        is_kept = status in {CheckpointStatus.COMPLETED, CheckpointStatus.DELETED}
        reached = end if is_kept else min(end, _reached(head, each))
        done = status if status is CheckpointStatus.DELETED else CheckpointStatus.COMPLETED
        yield PartitionProgress(
            topic=each.topic,
            partition=each.partition,
            status=done if reached == end else missing,
            end=end,
            reached=reached,
        )
    for sick in facts.taken.sick if facts.taken is not None else ():
        yield PartitionProgress(
            topic=sick.topic, partition=sick.partition, status=CheckpointStatus.FAILED, end=-1, reached=-1
        )


def _ends(facts: Facts) -> Iterator[tuple[PartitionId, int]]:
    if facts.carried is not None and facts.carried.ends:
        yield from facts.carried.ends
    elif facts.taken is not None:
        yield from ((each.partition_id, each.end) for each in facts.taken.ends)


def _reached(head: BackupState, partition: PartitionId) -> int:
    position = head.positions.get(partition)
    return position.end if position is not None else 0


class Checkpoints:
    """The checkpoints of a backup, as in the store at a moment."""

    def __init__(self, backup: Backup) -> None:
        self._backup = backup
        self._records = CheckpointRecords.of(backup)
        self._known = dict(self._records.known())  # in this order: a process that recorded a taken id and is no longer
        self._at_work = self._holder()  # at work has committed before, or never will
        self._head = backup.sound_state()

    @cached_property
    def _points(self) -> dict[int, int]:
        return {each.checkpoint: each.seq for each in self._head.history if each.checkpoint >= 0}

    @cached_property
    def _carried(self) -> dict[int, Checkpoint]:
        return {each.id: each for each in self._head.checkpoints}

    @cached_property
    def _now_ms(self) -> int:
        return reading_now_ms(self._backup.store)

    @property
    def is_being_taken(self) -> bool:
        """Whether a process takes checkpoints of the backup now."""
        return bool(self._at_work)

    @property
    def ids(self) -> Sequence[int]:
        """All known ids, rising."""
        return sorted({*self._known, *self._carried})

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
            partitions_completed=sum(each.status is CheckpointStatus.COMPLETED for each in details),
            details=details if with_details else (),
            participants=self._participants(checkpoint, facts) if with_details else (),
        )

    def facts(self, checkpoint: int) -> Facts:
        """The facts about an id. Raises as `list`."""
        known, carried = self._known.get(checkpoint, frozenset()), self._carried.get(checkpoint)
        taken = self._records.taken(checkpoint) if Told.TAKEN in known and carried is None else None
        told_since = {Told.FAILED} if taken is not None else set()  # recorded by a process no longer at work
        failed = self._told(checkpoint, Told.FAILED, known | told_since)
        is_open = taken is not None and failed is None
        return Facts(
            requested=Told.REQUESTED in known,
            taken=taken,
            failed=failed,
            deleted=self._told(checkpoint, Told.DELETED, known),
            carried=self._with_ends(carried),
            commit=self._points.get(checkpoint, NO_COMMIT),
            passed_by=self._passed_by(taken) if taken is not None and is_open else NO_COMMIT,
            is_passed=any(each > checkpoint and Told.TAKEN in told for each, told in self._known.items()),
            is_at_work=taken is not None and is_open and taken.told.writer == self._at_work,
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
        taken = self._told_when_taken(carried.id)
        ends = taken.ends if taken is not None else ()
        return replace(carried, ends=tuple((each.partition_id, each.end) for each in ends))

    def _participants(self, checkpoint: int, facts: Facts) -> tuple[CheckpointParticipant, ...]:
        """The participants, as recorded when the checkpoint was taken."""
        taken = facts.taken or (self._told_when_taken(checkpoint) if facts.carried is not None else None)
        return taken.participants if taken is not None else ()

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
        terms = LeaseTerms(store=self._backup.store, lease=self._records.lease)
        try:
            holder = terms.holder(asking=ProcessIdentity.mine(), now_ms=self._now_ms)
        except (DamagedObject, FormatTooNew) as error:  # completed, failed and deleted checkpoints do not need it
            warned("checkpoint_lease", error=error.id, why=error.message)
            return ""
        return "" if holder is None else holder.word

    def _told(self, checkpoint: int, what: Told, known: frozenset[Told]) -> ToldCheckpoint | None:
        return self._records.told(checkpoint, what) if what in known else None

    def _passed_by(self, taken: TakenCheckpoint) -> int:
        """The first commit behind `taken_checkpoint` that completes a pass. The commit lacks the id, so it belongs to
        another pass, and no commit of the checkpoint's own pass can follow."""
        for seq, each in self._backup.log.try_read(after=taken.base, upto=self._head.seq):
            if isinstance(each, StoredCommit):
                changes = each.commit.changes
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


def _taken_at_ms(facts: Facts) -> int:
    if facts.carried is not None:
        return facts.carried.taken_at_ms
    return facts.taken.told.at_ms if facts.taken is not None else -1


def _failure(facts: Facts) -> str:
    if facts.failed is not None:
        return facts.failed.reason
    if facts.passed_by != NO_COMMIT:
        return f"its pass ended without a commit: commit {facts.passed_by} is of another one, which went on without it"
    return "a higher id was taken before it was begun"


def _deleted_by(facts: Facts) -> str:
    return facts.deleted.by if facts.deleted is not None else "retention"
