"""Takes the checkpoints of a run that follows: requested checkpoints and scheduled checkpoints, at most one in a round.

Checkpoints never end a round, and delay a round only for participants, up to their time-outs. A failure is logged, and
the round continues without a checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offsite.backup.copy_plan import PartitionBounds
from offsite.backup.plan import BackupPlan
from offsite.backup.run import PassResult
from offsite.backup.stamps import StampWindows
from offsite.checkpoint.opening import Opener
from offsite.checkpoint.participants import Participants
from offsite.checkpoint.serve import why_not_completed
from offsite.checkpoint.taker import Taker, hold_lease
from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.model.journal import warned
from offsite.repository.backup import Backup
from offsite.repository.checkpoint_records import Stamping
from offsite.repository.lease import LeaseRenewal
from offsite.repository.snapshots.commit_cut import CheckpointParticipant

CLAIM_EVERY_S = 30.0
"""Seconds between attempts to get the lease from another process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """The checkpoint that the round is to take. `declared`: declarations of participants that have saved their states
    for the checkpoint."""

    id: int
    declared: tuple[CheckpointParticipant, ...]


class Checkpointing:
    """Takes checkpoints on request, and every `every_s` seconds (None: on request only); none at all unless
    `is_wanted`. `participants` take part in all of them. `stamping`: how to open checkpoints to applications unless a
    request says otherwise."""

    def __init__(  # noqa: PLR0913  # all by keyword
        self,
        *,
        is_wanted: bool,
        every_s: float | None,
        clock: Clock,
        opener: Opener,
        participants: Participants | None = None,
        stamping: Stamping | None = None,
    ) -> None:
        self._is_wanted, self._every_s, self._clock = is_wanted, every_s, clock
        self._participants, self._stamping, self._opener = participants or Participants(), stamping, opener
        self._prepared: _Prepared | None = None
        self._due_s = clock.monotonic_s()
        self._claim_s = clock.monotonic_s()
        self._taker: Taker | None = None
        self._lease: LeaseRenewal | None = None
        self._taking: int | None = None
        self._has_caught_up = self._is_asked = False

    @property
    def due_in_s(self) -> float | None:
        """Seconds until the next checkpoint of the schedule, at most 0 if due; None without a schedule."""
        return None if not self._is_wanted or self._every_s is None else self._due_s - self._clock.monotonic_s()

    def prepare(self, backup: Backup) -> None:
        """Prepare a checkpoint if one is requested or due: participants save their states. To be called before a round
        reads anything. A failing participant fails the checkpoint. Raises no `OffsiteError`."""
        self._prepared, checkpoint = None, None
        try:
            taker = self._held(backup) if self._is_wanted else None
            checkpoint = None if taker is None else self._next(taker)
            if taker is not None and checkpoint is not None:
                self._prepared = _Prepared(
                    id=checkpoint,
                    declared=self._participants.take(checkpoint),
                )
        except OffsiteError as error:
            self._give_up(checkpoint, error)

    def open(self, bounds: Sequence[PartitionBounds]) -> StampWindows | None:
        """Serve as `OpenCheckpoint` for the plan of the round. Raises no `OffsiteError`: on failure the round continues
        without a checkpoint."""
        prepared = self._prepared
        if prepared is None or self._stamping is None:
            return None
        try:
            return self._opener.open(prepared.id, self._stamping, bounds)
        except OffsiteError as error:
            self._prepared = None
            self._give_up(prepared.id, error)
            return None

    def _give_up(self, checkpoint: int | None, error: OffsiteError) -> None:
        warned("checkpoint_not_taken", error=error.id, why=error.message)
        self._participants.release()
        if self._taker is not None and checkpoint is not None:
            if not self._is_asked:
                self._plan_next()
            self._taker.abort(checkpoint, error)

    def participants_complete(self) -> None:
        """Return when the participants have completed the checkpoint of the round. Raises `ParticipantFailed`."""
        if self._taking is not None:
            self._participants.complete(self._taking)

    def begin(self, backup: Backup, plan: BackupPlan) -> BackupPlan:
        """`plan` with the prepared checkpoint: from here on every partition has started the checkpoint. Raises no
        `OffsiteError`."""
        prepared = self._prepared
        if prepared is None:
            return plan
        try:
            taker = self._held(backup)
            checkpoint_plan = None if taker is None else taker.take(prepared.id, plan, prepared.declared)
        except OffsiteError as error:
            warned("checkpoint_not_taken", error=error.id, why=error.message)
            return plan
        if checkpoint_plan is None:
            return plan
        self._taking = prepared.id
        self._plan_next()
        return checkpoint_plan

    def finish_round(self, pass_result: PassResult) -> None:
        """Finish the checkpoint after its round. Raises no `OffsiteError`."""
        self._participants.release()
        if self._taker is not None and self._taking is not None:
            self._taker.finish(self._taking, pass_result.state, why_not_completed(pass_result))
        self._taking = None
        self._has_caught_up = True

    def abort_round(self, error: BaseException) -> None:
        """Abort the checkpoint after an error or interrupt ended its round. Raises no `OffsiteError`."""
        self._participants.release()
        if self._taker is not None and self._taking is not None:
            self._taker.abort(self._taking, error)
        self._taking = None

    def release(self) -> None:
        """Let participants go on when the round of the checkpoint did not begin. Raises no `OffsiteError`."""
        self._participants.release()

    def close(self) -> None:
        """Let another process take checkpoints."""
        self.release()
        if self._lease is not None:
            self._lease.give_up()
        self._lease = self._taker = None

    def _held(self, backup: Backup) -> Taker | None:
        """The taker, while the process holds the lease."""
        if self._lease is not None and self._lease.is_lost:
            self.close()
        if self._lease is None and self._clock.monotonic_s() >= self._claim_s:
            self._claim_s = self._clock.monotonic_s() + CLAIM_EVERY_S
            self._taker = Taker(backup=backup, participants=self._participants.names, stamping=self._stamping)
            self._lease = hold_lease(self._taker)
            if self._lease is not None:
                self._participants.begin()
        return self._taker if self._lease is not None else None

    def _next(self, taker: Taker) -> int | None:
        """The id to take now. A requested id comes first, and also serves a due checkpoint unless it fails early: a
        dead process may have left it behind. A due checkpoint waits for the first round, which copies older records and
        takes as long as they need."""
        requested_id = taker.next_request()
        self._is_asked = requested_id is not None
        if requested_id is not None:
            return requested_id
        is_due = self._every_s is not None and self._clock.monotonic_s() >= self._due_s
        if not (is_due and self._has_caught_up):
            return None
        has_others = bool(self._participants) or self._stamping is not None
        return taker.request_next() if has_others else taker.next_id()

    def _plan_next(self) -> None:
        """Plan the next future moment of the schedule. Moments missed by a long round are not made up for."""
        if self._every_s is None:
            return
        now_s = self._clock.monotonic_s()
        missed = max(0, int((now_s - self._due_s) // self._every_s))
        if now_s >= self._due_s:
            self._due_s += (missed + 1) * self._every_s
