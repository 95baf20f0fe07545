"""A participant that keeps its states in files: a database with a position, as a checkpoint meets it.

It has read of each partition what `reads` says when it is asked, and declares nothing else later. It can be made to
lag, to fail, to hang, and to never complete.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from offsite.checkpoint.participants import DeclaredPositions
from offsite.checkpoint.status import CheckpointStatus
from offsite.log.range import TopicPartition
from offsite.model.errors import ParticipantFailed


def nothing() -> Mapping[TopicPartition, int]:
    return {}


@dataclass(kw_only=True)
class FileParticipant:
    """`not_yet`: so many questions are answered with "not yet". `hangs`: `take` waits for that. `asked` has all calls
    by name; `ends_as`: the status of what it saved."""

    folder: Path
    name: str = "database"
    reads: Callable[[], Mapping[TopicPartition, int]] = nothing
    can_replay: bool = True
    not_yet: int = 0
    fails: str = ""
    hangs: threading.Event | None = None
    ends_as: CheckpointStatus = CheckpointStatus.COMPLETED
    asked: list[str] = field(default_factory=list)

    def take(self, checkpoint: int) -> DeclaredPositions | None:
        self.asked.append("take")
        if self.hangs is not None:
            self.hangs.wait()
        if self.fails:
            raise ParticipantFailed(self.fails)
        if self.not_yet > 0:
            self.not_yet -= 1
            return None
        if not self.path(checkpoint).exists():
            positions = [[each.topic, each.partition, end] for each, end in self.reads().items()]
            self.path(checkpoint).write_text(json.dumps(positions))
        saved = json.loads(self.path(checkpoint).read_text())
        declared = {TopicPartition(topic=topic, partition=number): end for topic, number, end in saved}
        return DeclaredPositions(positions=declared, can_replay=self.can_replay)

    def status(self, checkpoint: int) -> CheckpointStatus:
        self.asked.append("status")
        return self.ends_as if self.path(checkpoint).exists() else CheckpointStatus.DOES_NOT_EXIST

    def delete(self, checkpoint: int) -> None:
        self.asked.append("delete")
        self.path(checkpoint).unlink(missing_ok=True)

    def release(self) -> None:
        """It holds nothing still."""

    def path(self, checkpoint: int) -> Path:
        return self.folder / f"{self.name}-{checkpoint}.json"
