"""Another cluster as a participant: its own backup takes a checkpoint of the same id.

The participant reads none of the first cluster's topics, and declares no positions. Both cuts are consistent in
themselves, and nothing is claimed between the cuts. Both checkpoints have the same id, and ours is complete only when
both are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from offsite.checkpoint.background import Background
from offsite.checkpoint.participants import DeclaredPositions
from offsite.checkpoint.request import delete_checkpoint, request_checkpoint
from offsite.checkpoint.serve import is_free
from offsite.checkpoint.status import Checkpoints, CheckpointStatus
from offsite.model.errors import CheckpointIdUsed, ParticipantFailed
from offsite.repository.backup import Backup


class OtherBackup:
    """`backup`, of another cluster, as participant `name`. Its checkpoints are taken by the run that follows the
    backup, or else by a process of its own with the command line that `arguments` makes of an id."""

    def __init__(self, name: str, backup: Backup, *, arguments: Callable[[int], Sequence[str]]) -> None:
        self._name, self._backup, self._arguments = name, backup, arguments
        self._background: tuple[int, Background] | None = None

    @property
    def name(self) -> str:
        return self._name

    def take(self, checkpoint: int) -> DeclaredPositions | None:
        """Request the checkpoint. None until every partition of the other cluster has started."""
        try:
            request_checkpoint(self._backup, checkpoint)
        except CheckpointIdUsed as error:
            raise ParticipantFailed(error.message, hint=error.hint) from error
        if self.status(checkpoint) is not CheckpointStatus.REQUESTED:
            return DeclaredPositions()
        background = self._process(checkpoint)
        background.check()
        if is_free(self._backup, checkpoint):
            background.begin()
        return None

    def status(self, checkpoint: int) -> CheckpointStatus:
        """Read the status from the other backup's store alone."""
        return Checkpoints(self._backup).report(checkpoint).status

    def delete(self, checkpoint: int) -> None:
        """Delete the other checkpoint. Raises `CheckpointNeeded` as `delete_checkpoint`."""
        if self.status(checkpoint) is not CheckpointStatus.DOES_NOT_EXIST:
            delete_checkpoint(self._backup, checkpoint)

    def release(self) -> None:
        """Do nothing: the participant pauses nothing."""

    def _process(self, checkpoint: int) -> Background:
        if self._background is None or self._background[0] != checkpoint:
            self._background = (checkpoint, Background(arguments=self._arguments(checkpoint)))
        return self._background[1]
