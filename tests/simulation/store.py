"""The store of copies: manifests whose state changes by compare-and-set, and contents that may be damaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from offsite_participant.bcs_copies import Copy, CopyState
from offsite_participant.bcs_snapshots import SnapshotSpan
from tests.simulation.engine import State
from tests.simulation.replicated_log import Record
from tests.virtual_time import Scheduler

LATE_S = 2.0


class StoreError(Exception):
    """The store did not do it, or nobody knows whether it did."""


class Snapshot(NamedTuple):
    """The state after the records before position `end`. `span` is what its engine can tell of that end; whoever opens
    the snapshot sees the whole truth."""

    end: int
    state: State
    span: SnapshotSpan

    @classmethod
    def exact(cls, end: int, state: State) -> Snapshot:
        """One that was taken at once: nothing went on meanwhile."""
        return cls(end, state, SnapshotSpan(processed=state.processed, written=end - 1))


class Contents(NamedTuple):
    """A base snapshot, and the records from its end on; `is_sound` is what a checksum would say."""

    base: Snapshot
    records: tuple[Record, ...]
    is_sound: bool = True


Place = tuple[int, int, int, int]
"""Incarnation of the processor, partition, checkpoint, term."""


@dataclass
class Faults:
    """How often the store fails before it did something, fails after it, does it `late`, when whoever asked has given
    up, or stores something else."""

    errors: float = 0.0
    lost_answers: float = 0.0
    late: float = 0.0
    damage: float = 0.0


@dataclass
class Store:
    scheduler: Scheduler
    faults: Faults = field(default_factory=Faults)
    manifests: dict[Place, Copy] = field(default_factory=dict)
    contents: dict[Place, Contents] = field(default_factory=dict)

    def copies(self) -> tuple[Copy, ...]:
        self._fail(self.faults.errors)
        return tuple(self.manifests.values())

    def create(self, place: Place, copy: Copy) -> bool:
        """Whether the manifest is there now as given: it was not there, or an answer was lost."""
        self._fail(self.faults.errors)
        self._perhaps_late(lambda: self._create(place, copy))
        held = self._create(place, copy)
        self._fail(self.faults.lost_answers)
        return held == copy

    def _create(self, place: Place, copy: Copy) -> Copy:
        if place not in self.manifests:
            self.scheduler.tell("copy", f"{place[1:]} {copy.state}")
        return self.manifests.setdefault(place, copy)

    def change(self, place: Place, *, expected: CopyState, new: CopyState, reason: str = "") -> bool:
        """Whether the state is `new` now: by this call, or by one whose answer was lost."""
        self._fail(self.faults.errors)
        self._perhaps_late(lambda: self._change(place, expected, new, reason))
        held = self._change(place, expected, new, reason)
        self._fail(self.faults.lost_answers)
        return held is new

    def _change(self, place: Place, expected: CopyState, new: CopyState, reason: str) -> CopyState:
        held = self.manifests[place]
        if held.state is not expected:
            return held.state
        self.manifests[place] = replace(held, state=new, reason=reason)
        self.scheduler.tell("copy", f"{place[1:]} {new} {reason}")
        return new

    def change_to_deleted(self, place: Place) -> None:
        """An operator deletes, and goes on until it is done."""
        self.manifests[place] = replace(self.manifests[place], state=CopyState.DELETED)

    def put(self, place: Place, contents: Contents) -> None:
        """Objects are created, and never overwritten: what comes late changes nothing that was read back."""
        self._fail(self.faults.errors)
        if self.scheduler.happens(self.faults.damage):
            contents = contents._replace(is_sound=False)
        self._perhaps_late(lambda: self._put(place, contents))
        self._put(place, contents)
        self._fail(self.faults.lost_answers)

    def _put(self, place: Place, contents: Contents) -> None:
        self.contents.setdefault(place, contents)

    def verify(self, place: Place) -> bool:
        self._fail(self.faults.errors)
        return place in self.contents and self.contents[place].is_sound

    def _perhaps_late(self, effect: Callable[[], object]) -> None:
        """It happens, in an order that the scheduler decides on, and nobody waits for it any more."""
        if self.scheduler.happens(self.faults.late):
            self.scheduler.tell("late")
            self.scheduler.soon(LATE_S, effect)
            raise StoreError

    def _fail(self, probability: float) -> None:
        if self.scheduler.happens(probability):
            self.scheduler.tell("store error")
            raise StoreError
