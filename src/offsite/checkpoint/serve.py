"""Takes checkpoints in a process of their own, where no run follows the backup: request by request, until none is
left."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from offsite.backup.options import BackupRequest
from offsite.backup.plan import BackupPlan, OpenCheckpoint, OpenedBackup, open_existing_backup, plan_backup
from offsite.backup.run import PassResult, carry_out
from offsite.checkpoint.opening import Opener, opening_of
from offsite.checkpoint.participants import Participants
from offsite.checkpoint.status import CheckpointReport, Checkpoints, CheckpointStatus
from offsite.checkpoint.taker import Taker, held_lease
from offsite.engine.runner import OnProgress, Runner
from offsite.kafka.cluster import Cluster
from offsite.model.clock import Clock
from offsite.model.errors import CheckpointIdUsed, OffsiteError
from offsite.model.names import amount
from offsite.repository.backup import Backup
from offsite.repository.checkpoint_records import Stamping
from offsite.repository.repository import Repository

POLL_S = 1.0
"""Seconds between two looks at another process's work on a checkpoint: every look opens the backup."""

UNSETTLED = frozenset({CheckpointStatus.REQUESTED, CheckpointStatus.ONGOING})


class CheckpointServer:
    """Takes the requested checkpoints of a backup, with a pass for every checkpoint. `participants` take part in all,
    and all are opened to applications as `stamping` says."""

    def __init__(  # noqa: PLR0913  # all by keyword
        self,
        *,
        repository: Repository,
        backup: Backup,
        cluster: Cluster,
        runner: Runner,
        on_progress: OnProgress | None = None,
        participants: Participants | None = None,
        stamping: Stamping | None = None,
    ) -> None:
        self._repository, self._backup, self._cluster = repository, backup, cluster
        self._runner, self._on_progress = runner, on_progress
        self._participants, self._stamping = participants or Participants(), stamping

    def serve(self) -> bool:
        """Take checkpoint after checkpoint until none is requested; False where another process takes them now.

        Raises the errors of planning and copying: the checkpoint has failed in that case, with a reason. An id that can
        no longer be opened, such as the id of a dead process, does not stop the later ids.
        """
        refused: CheckpointIdUsed | None = None
        taker = Taker(backup=self._backup, participants=self._participants.names, stamping=self._stamping)
        with held_lease(taker) as lease:
            if lease is None:
                return False
            self._participants.begin()
            while (checkpoint := taker.next_request()) is not None:
                try:
                    self._take(taker, checkpoint)
                    refused = None
                except CheckpointIdUsed as error:
                    refused = error
            if refused is not None:
                raise refused
            return True

    def _take(self, taker: Taker, checkpoint: int) -> None:
        try:
            self._take_held(taker, checkpoint)
        finally:
            self._participants.release()

    def _take_held(self, taker: Taker, checkpoint: int) -> None:
        try:
            declared = self._participants.take(checkpoint)  # before anything is read: `participants` says why
            opening = opening_of(Opener(cluster=self._cluster), checkpoint, self._stamping)
            plan = taker.take(checkpoint, self._plan(opening), declared)
        except OffsiteError as error:
            taker.abort(checkpoint, error)
            raise
        if plan is None:
            return  # another process has taken the id
        try:
            pass_result = carry_out(
                plan,
                self._backup,
                repository=self._repository,
                kafka=self._cluster.config,
                runner=self._runner,
                on_progress=self._on_progress,
                participants_complete=partial(self._participants.complete, checkpoint),
            )
        except (OffsiteError, KeyboardInterrupt) as error:
            taker.abort(checkpoint, error)
            raise
        taker.finish(checkpoint, pass_result.state, why_not_completed(pass_result))

    def _plan(self, opening: OpenCheckpoint | None) -> BackupPlan:
        request = BackupRequest(backup=self._backup.descriptor.name, selection=None)
        opened: OpenedBackup = open_existing_backup(self._repository, request.backup)
        return plan_backup(
            self._repository,
            self._cluster.admin,
            request,
            slots=self._runner.slots,
            opened=opened,
            open_checkpoint=opening,
        )


def why_not_completed(pass_result: PassResult) -> str:
    """Why a finished pass did not complete its checkpoint."""
    if pass_result.checkpoint_problem:
        return pass_result.checkpoint_problem
    failed = pass_result.result.failed if pass_result.result is not None else ()
    if not failed:
        return "the copy did not end at the offsets of the checkpoint"
    more = f", and {amount(len(failed) - 1, 'more partition')}" if len(failed) > 1 else ""
    return f"{failed[0].topic}/{failed[0].partition}: {failed[0].message}{more}"


def is_free(backup: Backup, checkpoint: int) -> bool:
    """Whether nobody takes checkpoints of the backup now, and `checkpoint` waits for a taker."""
    checkpoints = Checkpoints(backup)
    return not checkpoints.is_being_taken and checkpoints.report(checkpoint).status is CheckpointStatus.REQUESTED


def wait_for(
    backup: Backup,
    checkpoint: int,
    *,
    clock: Clock,
    while_in: frozenset[CheckpointStatus],
    step: Callable[[], object],
) -> CheckpointReport:
    """Wait until the status of the checkpoint leaves `while_in`, and return its report. `step` runs before every look
    but the first; its errors end the wait."""
    while (report := Checkpoints(backup).report(checkpoint)).status in while_in:
        step()
        clock.sleep(POLL_S)
    return report
