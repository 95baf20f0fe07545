"""Work with the store, step by step: each takes its time, may fail, or be the last that its leader does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from offsite_participant import bcs
from offsite_participant.bcs_copies import Copy, CopyState
from tests.simulation.store import StoreError

if TYPE_CHECKING:
    from tests.simulation.leader import Leader
    from tests.simulation.partition import Partition

STEP_S = 0.5
STALL_S = 4.0

Step = Callable[[], None]


class StoreWork:
    """What a leader does beside its processing. Each step does one thing to the store, and names the next one."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    @property
    def _partition(self) -> Partition:
        return self._leader.partition

    def _then(self, name: str, step: Step, *, spent: Step | None = None) -> None:
        """Do `step` soon. One that the store fails is tried again, or `spent` says what instead."""

        def run() -> None:
            self._partition.steps_ahead -= 1
            if not self._partition.effect(self._leader, name):
                return
            try:
                step()
            except StoreError:
                spent() if spent else self._then(name, step)

        self._partition.steps_ahead += 1
        self._partition.scheduler.soon(STALL_S if self._partition.stalls(self._leader) else STEP_S, run)

    def _copy(self, taken: bcs.Upload | bcs.Created, state: CopyState = CopyState.IN_PROGRESS) -> Copy:
        """Its own one of a checkpoint that was `taken`."""
        return Copy(
            partition=self._partition.number,
            checkpoint=taken.checkpoint,
            term=self._leader.term,
            state=state,
            position=taken.position,
            partitions=self._partition.partitions,
        )

    def _put_own(self, taken: bcs.Upload | bcs.Created, state: CopyState = CopyState.IN_PROGRESS) -> None:
        self._partition.store.create(self._place(taken), self._copy(taken, state))

    def _end_own(self, taken: bcs.Upload | bcs.Created, state: CopyState, reason: str = "") -> None:
        self._partition.store.change(self._place(taken), expected=CopyState.IN_PROGRESS, new=state, reason=reason)

    def _end_other(self, copy: Copy, state: CopyState, reason: str = "") -> None:
        place = self._partition.place_of(copy)
        self._partition.store.change(place, expected=CopyState.IN_PROGRESS, new=state, reason=reason)

    def _place(self, taken: bcs.Upload | bcs.Created) -> tuple[int, int, int, int]:
        return (*self._partition.place, taken.checkpoint, self._leader.term)
