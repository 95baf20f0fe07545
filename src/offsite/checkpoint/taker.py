"""The process that takes checkpoints of a backup: one at a time, under a lease, to avoid copying in competition.

The lease is a courtesy. Correctness rests on two objects: the create-only object that takes the id, and the commit that
carries the id. Two processes with the belief to hold the lease can only fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from offsite.backup.plan import BackupPlan
from offsite.checkpoint.request import highest_id, make_note, next_id
from offsite.model.errors import DamagedObject, LeaseHeld, OffsiteError, PutOutcomeUnknown
from offsite.model.ids import random_id
from offsite.model.journal import decided, warned
from offsite.repository.backup import Backup
from offsite.repository.checkpoint_records import (
    CheckpointEvent,
    CheckpointRecords,
    SickEnd,
    Stamping,
    TakenCheckpoint,
    TakenEnd,
)
from offsite.repository.lease import Lease, LeaseRenewal, ProcessIdentity
from offsite.repository.snapshots.commit_cut import CheckpointParticipant
from offsite.repository.state import BackupState

_TERMS_SWEPT = 10
"""A holder deletes so many terms before its own: the terms of the last holder, and of some that died."""


@dataclass(slots=True, kw_only=True)
class Taker:
    """Takes checkpoints of `backup` while holding the lease, together with the named participants; `word` stands in all
    records of the taker. `stamping`: how all checkpoints are opened to applications, if at all. A request with another
    way fails: contents of a repository make nobody write to a cluster."""

    backup: Backup
    participants: tuple[str, ...] = ()
    stamping: Stamping | None = None
    word: str = field(default_factory=lambda: random_id(16))
    _highest: int = -1

    @property
    def records(self) -> CheckpointRecords:
        return CheckpointRecords.of(self.backup)

    def next_request(self) -> int | None:
        """The lowest requested id that can still be taken: a list of keys that are new since the last taken id. A
        request passed by a higher id fails, and so does a request for unknown participants."""
        events = self.records.events(after=self._highest)
        self._highest = max(
            (checkpoint for checkpoint, id_events in events.items() if CheckpointEvent.TAKEN in id_events),
            default=self._highest,
        )
        open_ids = [checkpoint for checkpoint, id_events in events.items() if id_events == {CheckpointEvent.REQUESTED}]
        for checkpoint in open_ids:
            if checkpoint < self._highest:
                self.fail(checkpoint, f"checkpoint {self._highest} was taken before this checkpoint began")
        return next(
            (
                checkpoint
                for checkpoint in sorted(open_ids)
                if checkpoint > self._highest and self._may_take(checkpoint)
            ),
            None,
        )

    def _may_take(self, checkpoint: int) -> bool:
        """Whether the request can be taken. States of another process's participants would be missing from the
        completed checkpoint."""
        try:
            request = self.records.note(checkpoint, CheckpointEvent.REQUESTED)
        except DamagedObject as error:
            self.fail(checkpoint, f"{error.id}: {error.message}")
            return False
        if request is None:
            return True
        if missing := sorted(set(request.participants) - set(self.participants)):
            self.fail(checkpoint, f"the process that was to take it does not know participant {', '.join(missing)}")
            return False
        if request.stamping not in {None, self.stamping}:
            self.fail(checkpoint, "the process that was to take it has other options for participants")
            return False
        return True

    def next_id(self) -> int:
        """An id for a due checkpoint. Raises `CheckpointIdUsed` where none is left."""
        return next_id(self.backup, highest_id((self._highest, *self.records.events(after=self._highest))))

    def request_next(self) -> int | None:
        """Request an id for a due checkpoint like any other: participants never hear of an id unknown to the store, and
        hear of the same id again if their round broke. None where another process was faster: `next_request` finds its
        request."""
        checkpoint = self.next_id()
        request = replace(
            make_note(self.backup, checkpoint, writer=self.word), participants=self.participants, stamping=self.stamping
        )
        return checkpoint if self.records.put(request, CheckpointEvent.REQUESTED) else None

    def take(
        self, checkpoint: int, plan: BackupPlan, participants: tuple[CheckpointParticipant, ...] = ()
    ) -> BackupPlan | None:
        """Take the checkpoint: `plan` with the checkpoint, which every partition has started on return; None where
        another process has taken the id. `participants` have saved their states before anything was read for `plan`."""
        taken_checkpoint = TakenCheckpoint(
            note=make_note(self.backup, checkpoint, writer=self.word),
            cluster_id=plan.source.cluster_id,
            base=plan.base.seq,
            ends=tuple(
                TakenEnd(partition_id=partition.partition_id, end=partition.end) for partition in plan.copy.bounds
            ),
            sick=tuple(
                SickEnd(topic=sick.topic, partition=sick.partition, error=sick.error.id) for sick in plan.copy.sick
            ),
            participants=participants,
        )
        if (
            not self.records.put_taken(taken_checkpoint)
            or self.records.note(checkpoint, CheckpointEvent.FAILED) is not None
        ):
            return None  # another process has the id, or recorded its failure
        self._highest = max(self._highest, checkpoint)
        decided(
            "checkpoint_taken", why="every partition has an end", id=checkpoint, partitions=len(taken_checkpoint.ends)
        )
        if plan.copy.sick:
            first = plan.copy.sick[0]
            self.fail(checkpoint, f"{first.topic}/{first.partition}: {first.error.message}")
        return replace(plan, checkpoint=taken_checkpoint)

    def finish(self, checkpoint: int, state: BackupState, why: str) -> bool:
        """Whether `state`, left by the checkpoint's pass, completes the checkpoint; otherwise record the failure with
        the reason."""
        if state.checkpoint(checkpoint) is not None:
            return True
        self.fail(checkpoint, why)
        return False

    def abort(self, checkpoint: int, error: BaseException) -> None:
        """Record the meaning of the error that ended the checkpoint's pass. Nothing is recorded where nobody knows
        whether its commit arrived. Raises no `OffsiteError`."""
        if isinstance(error, PutOutcomeUnknown) or self._is_anothers(checkpoint):
            return
        why = f"{error.id}: {error.message}" if isinstance(error, OffsiteError) else "its process was interrupted"
        self.fail(checkpoint, why)

    def _is_anothers(self, checkpoint: int) -> bool:
        """Whether another process, also believing to hold the lease, has taken the id: that process decides about the
        checkpoint."""
        with suppress(OffsiteError):
            taken_checkpoint = self.records.taken(checkpoint)
            return taken_checkpoint is not None and taken_checkpoint.note.writer != self.word
        return False

    def fail(self, checkpoint: int, why: str) -> None:
        """Record that a checkpoint has failed, unless recorded before. If recording is impossible, the next commit of
        another pass proves the failure."""
        warned("checkpoint_failed", why=why, id=checkpoint)
        try:
            self.records.put(make_note(self.backup, checkpoint, writer=self.word, reason=why), CheckpointEvent.FAILED)
        except OffsiteError as error:
            warned("checkpoint_untold", error=error.id, why=error.message, id=checkpoint)


def hold_lease(taker: Taker) -> LeaseRenewal | None:
    """Get the lease for `taker`; None where another process has the lease."""
    terms = taker.records.lease
    try:
        claim = terms.claim(ProcessIdentity.current(), taker.word, take_over=False)
    except LeaseHeld:
        return None
    _sweep(terms, before=claim.term)
    return LeaseRenewal(terms, claim)


def _sweep(terms: Lease, *, before: int) -> None:
    """Delete old terms, which mean nothing any more; without the right to delete they stay."""
    with suppress(OffsiteError):
        for term in range(max(1, before - _TERMS_SWEPT), before):
            for part in ("beat", "end", "claim"):
                terms.store.delete(terms.key(term, part))


@contextmanager
def held_lease(taker: Taker) -> Iterator[LeaseRenewal | None]:
    """A block in which `taker` holds the lease, or another process does (None)."""
    lease = hold_lease(taker)
    try:
        yield lease
    finally:
        if lease is not None:
            lease.give_up()
