"""What is known of a checkpoint, from the store alone: with the cluster gone it is the same.

Only a commit that carries the id completes a checkpoint, and only evidence fails it: that it is written down, or that
another pass committed behind the one that it was taken in. From then on its own pass cannot commit any more, because
each number of a commit is created once. Silence is neither: then it is `incomplete`.
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
"""Checkpoints that a list shows unless told otherwise: one screen."""


class CheckpointStatus(StrEnum):
    """What became of an id."""

    DOES_NOT_EXIST = "doesNotExist"
    REQUESTED = "requested"
    """Asked for; no partition has started."""
    ONGOING = "ongoing"
    COMPLETED = "completed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    """Taken, not complete, and nobody is at work on it as far as is known."""
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgress:
    """One partition of a checkpoint: its end, how far the backup is (at most to that end; offsets), and its status.
    Both are -1 for a partition that could not be asked."""

    topic: str
    partition: int
    status: CheckpointStatus
    end: int
    reached: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReport:
    """What is known of a checkpoint. `taken_at_ms`: when every partition had started (store's clock, epoch ms; -1:
    never), `age_s` seconds ago. `commit`: the restore point, 0 where there is none. `failure_reason` is empty
    unless it failed, or a list could not read what is told of it; `deleted_by`, unless it is deleted. `participants`:
    what others have saved for it, with what they had read; only beside `details`."""

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
    """Checkpoints of a backup, newest first, without their partitions; `total`: how many there are."""

    backup: str
    total: int
    checkpoints: tuple[CheckpointReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was found of one id. `carried`: what its commit carries, `commit` that commit where it still is a restore
    point. `passed_by`: the commit of another pass behind it, 0: none is known. `is_passed`: a higher id was taken.
    `is_at_work`: the process that took it gives signs of life."""

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
    """The partitions of a checkpoint. One that the backup holds to its end is completed, also where others are not.
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
    """The checkpoints of one backup as they are in the store at one moment."""

    def __init__(self, backup: Backup) -> None:
        self._backup = backup
        self._records = CheckpointRecords.of(backup)
        self._known = dict(self._records.known())  # in this order: who took what is told and is not at work any more
        self._at_work = self._holder()  # has committed before, or never will
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
        """All that are known, rising."""
        return sorted({*self._known, *self._carried})

    def list(self, *, most: int = LIST_MAX) -> CheckpointList:
        """The newest, at most so many. One of which something that is told cannot be read hides no others. Raises
        `DamagedCommit`, `FormatTooNew`."""
        ids = self.ids
        shown = tuple(map(self._line, reversed(ids[-most:])))
        return CheckpointList(backup=self._head.backup, total=len(ids), checkpoints=shown)

    def _line(self, checkpoint: int) -> CheckpointReport:
        try:
            return self.report(checkpoint, with_details=False)
        except DamagedObject as error:  # that proves neither a failure nor the contrary
            return CheckpointReport(
                backup=self._head.backup,
                id=checkpoint,
                status=CheckpointStatus.INCOMPLETE,
                failure_reason=f"{error.id}: {error.message}",
            )

    def report(self, checkpoint: int, *, with_details: bool = True) -> CheckpointReport:
        """What is known of one id; it need not exist. Raises as `list`."""
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
        """What is found of one id. Raises as `list`."""
        known, carried = self._known.get(checkpoint, frozenset()), self._carried.get(checkpoint)
        taken = self._records.taken(checkpoint) if Told.TAKEN in known and carried is None else None
        told_since = {Told.FAILED} if taken is not None else set()  # by whoever is not at work any more
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
        """A state leaves out ends that the commit leaves anyway. The commit itself has them; where it is gone, they are
        what was told when it was taken, which anybody who may write could have changed since."""
        if carried is None or carried.ends:
            return carried
        stored = self._backup.log.get(self._points[carried.id]) if carried.id in self._points else None
        if stored is not None and stored.commit.changes.checkpoint is not None:
            return replace(carried, ends=stored.commit.changes.checkpoint.ends)
        taken = self._told_when_taken(carried.id)
        ends = taken.ends if taken is not None else ()
        return replace(carried, ends=tuple((each.partition_id, each.end) for each in ends))

    def _participants(self, checkpoint: int, facts: Facts) -> tuple[CheckpointParticipant, ...]:
        """As they were told when it was taken."""
        taken = facts.taken or (self._told_when_taken(checkpoint) if facts.carried is not None else None)
        return taken.participants if taken is not None else ()

    def _told_when_taken(self, checkpoint: int) -> TakenCheckpoint | None:
        """None also where it cannot be read: a commit carries the checkpoint, so nothing depends on it."""
        try:
            return self._records.taken(checkpoint)
        except DamagedObject as error:
            warned("checkpoint_unreadable", error=error.id, why=error.message, id=checkpoint)
            return None

    def _holder(self) -> str:
        """The word of the process that takes checkpoints now; empty where there is none, or none can be known."""
        terms = LeaseTerms(store=self._backup.store, lease=self._records.lease)
        try:
            holder = terms.holder(asking=ProcessIdentity.mine(), now_ms=self._now_ms)
        except (DamagedObject, FormatTooNew) as error:  # what is complete, failed or deleted is so without it
            warned("checkpoint_lease", error=error.id, why=error.message)
            return ""
        return "" if holder is None else holder.word

    def _told(self, checkpoint: int, what: Told, known: frozenset[Told]) -> ToldCheckpoint | None:
        return self._records.told(checkpoint, what) if what in known else None

    def _passed_by(self, taken: TakenCheckpoint) -> int:
        """The first commit behind `taken` that completes a pass: it does not carry the id, so it is of another one, and
        no commit of the checkpoint's own pass can follow it."""
        for seq, each in self._backup.log.try_read(after=taken.base, upto=self._head.seq):
            if isinstance(each, StoredCommit):
                changes = each.commit.changes
                if not changes.incomplete and not changes.is_upkeep:
                    return seq
        return NO_COMMIT


def check_exists(report: CheckpointReport) -> CheckpointReport:
    """Return what is known of an id that exists. Raises `NoSuchRestorePoint`."""
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
