"""What a new leader does about the copies that those before it have left, or never begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsite_participant import bcs, bcs_copies
from offsite_participant.bcs_copies import Copy, CopyState
from tests.simulation.store_work import StoreWork

if TYPE_CHECKING:
    from tests.simulation.leader import Leader


class CleanUp(StoreWork):
    """It looks, does one thing, and looks again, until there is nothing left to do. `_placed` is the checkpoint in the
    place of whose copy it has put its own one, which is still to be ended."""

    def __init__(self, leader: Leader) -> None:
        super().__init__(leader)
        self._newest, self._created = leader.state.progress.checkpoint, leader.state.created
        self._placed: bcs.Created | None = None

    def begin(self) -> None:
        self._then("look for what is left", self._look)

    def _look(self) -> None:
        copies, me = self._partition.copies(), self._partition.number
        restored = self._partition.restored
        left = bcs_copies.orphaned(copies, partition=me, newest=self._newest, term=self._leader.term, restored=restored)
        if orphan := next(left, None):
            state = bcs_copies.ending(copies, partition=me, checkpoint=orphan.checkpoint, term=orphan.term)
            self._then("end an orphan", lambda: self._end_orphan(orphan, state))
        elif self._placed:
            placed, term = self._placed, self._leader.term
            state = bcs_copies.ending(copies, partition=me, checkpoint=placed.checkpoint, term=term)
            self._then("end what was never begun", lambda: self._end(placed, state))
        else:
            missing = bcs_copies.never_begun(copies, partition=me, replayed=self._created, restored=restored)
            if created := next(missing, None):
                self._then("place what was never begun", lambda: self._place_own(created))

    def _end_orphan(self, orphan: Copy, state: CopyState) -> None:
        self._end_other(orphan, state, "its leader changed")
        self.begin()

    def _place_own(self, created: bcs.Created) -> None:
        self._put_own(created)
        self._placed = created
        self.begin()

    def _end(self, placed: bcs.Created, state: CopyState) -> None:
        self._end_own(placed, state, "its leader died before it began")
        self._placed = None
        self.begin()
