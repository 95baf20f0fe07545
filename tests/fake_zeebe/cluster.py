"""What a Zeebe cluster does about backups, as far as its management API shows it: ids, partitions, exporters.

Written from what is known of it (`facts.py`). Nothing of offsite is used here.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from enum import StrEnum

VERSION = "8.5.8"


class State(StrEnum):
    DOES_NOT_EXIST = "DOES_NOT_EXIST"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    INCOMPLETE = "INCOMPLETE"


class Exporter(StrEnum):
    EXPORTING = "EXPORTING"
    SOFT_PAUSED = "SOFT_PAUSED"
    PAUSED = "PAUSED"


class HigherId(Exception):
    """A backup of the same or of a higher id is there."""

    def __init__(self, wanted: int, latest: int) -> None:
        super().__init__(
            f"Requested backup has id {wanted}. The latest backup has id {latest}. "
            "Id of new backups must be higher than the previous one. "
        )


@dataclass(kw_only=True)
class Part:
    """The copy of one partition. `left`: so many more questions are answered as if it was still being copied."""

    state: State
    created_s: float
    left: int = 0
    failure: str = ""


@dataclass(kw_only=True)
class Partition:
    """`checkpoint`: the highest id that it ever began; it never falls. `parts`: what the store has of each id."""

    checkpoint: int = 0
    exporter: Exporter = Exporter.EXPORTING
    parts: dict[int, Part] = field(default_factory=dict)


@dataclass(kw_only=True)
class FakeZeebe:
    """`copying`: questions that a copy takes to be complete; -1: it never is. `fails`: partitions whose copies fail,
    and why. `unseen`: questions for which a new backup is not known. `skew_s`: how far its clock is ahead."""

    partitions: dict[int, Partition] = field(default_factory=lambda: {1: Partition(), 2: Partition()})
    copying: int = 2
    fails: dict[int, str] = field(default_factory=dict)
    unseen: int = 0
    has_store: bool = True
    is_continuous: bool = False
    is_scaling: bool = False
    skew_s: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)
    history: list[str] = field(default_factory=list)

    @property
    def exporters(self) -> set[Exporter]:
        return {each.exporter for each in self.partitions.values()}

    def take(self, backup: int, *, only: tuple[int, ...] = ()) -> None:
        """On all partitions, or `only` some: what a request does that breaks midway. Raises `HigherId`."""
        began = False
        for number, each in self.partitions.items():
            if backup > each.checkpoint and (not only or number in only):
                each.checkpoint, began = backup, True
                failure = self.fails.get(number, "")
                state = State.FAILED if failure else State.IN_PROGRESS
                each.parts[backup] = Part(
                    state=state, created_s=time.time() + self.skew_s, left=self.copying, failure=failure
                )
        latest = max(each.checkpoint for each in self.partitions.values())
        if not began or latest != backup:
            raise HigherId(backup, latest)
        self.history.append(f"take {backup}")

    def parts(self, backup: int) -> dict[int, Part]:
        """One more question: copies get on by it. Those that do not exist are left out."""
        found = {number: each.parts[backup] for number, each in self.partitions.items() if backup in each.parts}
        if found and self.unseen > 0:
            self.unseen -= 1
            return {}
        for part in found.values():
            if part.state is State.IN_PROGRESS:
                part.state = State.COMPLETED if part.left == 0 else part.state
                part.left -= 1
        if found and all(part.state is State.COMPLETED for part in found.values()):
            self._note(f"complete {backup}")
        return found

    def state(self, found: dict[int, Part]) -> State:
        """Zeebe's order: failed, incomplete, in progress, none, complete."""
        states = {part.state for part in found.values()}
        if State.FAILED in states:
            return State.FAILED
        if not found:
            return State.DOES_NOT_EXIST
        if len(found) < len(self.partitions):
            return State.INCOMPLETE
        return State.IN_PROGRESS if State.IN_PROGRESS in states else State.COMPLETED

    @property
    def ids(self) -> list[int]:
        return sorted({backup for each in self.partitions.values() for backup in each.parts}, reverse=True)

    def delete(self, backup: int) -> None:
        for each in self.partitions.values():
            each.parts.pop(backup, None)
        self.history.append(f"delete {backup}")

    def export(self, wanted: Exporter, *, only: tuple[int, ...] = ()) -> None:
        for number, each in self.partitions.items():
            if not only or number in only:
                each.exporter = wanted
        self._note(wanted.value)

    def _note(self, what: str) -> None:
        if self.history[-1:] != [what]:
            self.history.append(what)
