"""What a new leader does about the copies of those before it, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from offsite.cut import bcs, bcs_copies
from tests.simulation.store import StoreError

if TYPE_CHECKING:
    from tests.simulation.leader import Leader

STEP_S = 0.3


class CleanUp:
    """Each step is done again and again until the store has done it, or the leader is no more."""

    def __init__(self, leader: Leader) -> None:
        self._leader, self._partition = leader, leader.partition
        self._replayed, self._newest = leader.state.created, leader.state.progress.checkpoint
        self._begun: tuple[bcs.Created, ...] = ()

    def begin(self) -> None:
        self._step(self._begin_missing)

    def _then(self, step: Callable[[], None]) -> None:
        self._partition.scheduler.soon(STEP_S, lambda: self._step(step))

    def _step(self, step: Callable[[], None]) -> None:
        if self._leader.goes_on:
            try:
                step()
            except StoreError:
                self._then(step)

    def _begin_missing(self) -> None:
        """What was found missing stays so when the step is done again: its own copies are there by then."""
        copies, number = self._partition.copies(), self._partition.number
        missing = bcs_copies.never_begun(copies, partition=number, replayed=self._replayed)
        self._begun = tuple({each.checkpoint: each for each in (*self._begun, *missing)}.values())
        for each in self._begun:
            self._partition.put_begun(each, self._leader.term)
        self._then(self._fail_orphaned)

    def _fail_orphaned(self) -> None:
        copies, number = self._partition.copies(), self._partition.number
        for each in bcs_copies.orphaned(copies, partition=number, newest=self._newest, term=self._leader.term):
            self._partition.fail_copy(each, "its leader changed")
        self._then(self._end_begun)

    def _end_begun(self) -> None:
        copies, number = self._partition.copies(), self._partition.number
        for each in self._begun:
            ends = bcs_copies.never_begun_ends(copies, partition=number, checkpoint=each.checkpoint)
            self._partition.end_begun(each, self._leader.term, ends, "its leader died before it began")
