"""The upload of one local checkpoint, step by step, each of which may fail, or be the last that its leader does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from offsite.cut import bcs, bcs_copies
from offsite.cut.bcs_copies import Beginning, Copy, CopyState
from tests.simulation.store import Contents, Snapshot, StoreError

if TYPE_CHECKING:
    from tests.simulation.leader import Leader

STEP_S = 0.5
ATTEMPTS = 6


class RunningUpload:
    """Each step names the next one; one that the store fails is tried again, and in the end the copy has failed."""

    def __init__(self, leader: Leader, upload: bcs.Upload) -> None:
        self._leader, self._upload, self._partition = leader, upload, leader.partition
        self._place = (*self._partition.place, upload.checkpoint, leader.term)
        self._left = ATTEMPTS

    def begin(self) -> None:
        self._then("look", self._look)

    def _then(self, name: str, step: Callable[[], None]) -> None:
        def run() -> None:
            if not self._partition.effect_on_store(self._leader, name):
                return
            try:
                step()
            except StoreError:
                self._left -= 1
                self._then(name, step) if self._left > 0 else self._fail("the store fails")

        self._partition.scheduler.soon(STEP_S, run)

    def _look(self) -> None:
        if self._may_begin():
            self._then("create", self._create)
        else:
            self._unpin()

    def _may_begin(self) -> bool:
        """Whether there is nothing against it, and nothing left to abandon."""
        checkpoint, term, number = self._upload.checkpoint, self._leader.term, self._partition.number
        while True:
            copies = self._partition.copies()
            decided = bcs_copies.beginning(copies, partition=number, checkpoint=checkpoint, term=term)
            if decided is not Beginning.COPY:
                self._partition.scheduler.tell("not copied", f"{self._partition.name} {checkpoint} {decided}")
                return False
            older = bcs_copies.superseded(copies, partition=number, checkpoint=checkpoint, term=term)
            if all(self._partition.abandon_copy(each) for each in older):
                return True

    def _create(self) -> None:
        self._partition.store.create(self._place, self._copy(CopyState.IN_PROGRESS))
        self._then("look again", self._look_again)

    def _look_again(self) -> None:
        """Now that its own one is there, whoever ends or begins another one sees it."""
        if self._may_begin():
            return self._then("put", self._put)
        self._partition.store.change(self._place, expected=CopyState.IN_PROGRESS, new=CopyState.ABANDONED)
        return self._unpin()

    def _unpin(self) -> None:
        if self._leader.is_alive:
            self._partition.unpin(self._upload.checkpoint)

    def _pinned(self) -> Snapshot | None:
        checkpoint = self._upload.checkpoint
        return self._partition.pinned(checkpoint) if self._leader.is_alive else self._leader.pins.get(checkpoint)

    def _put(self) -> None:
        base = self._pinned()
        if base is None:
            return self._fail("no snapshot before it")
        log = self._partition.log
        try:  # segments go as they are, with what is behind the checkpoint
            records = log.read(base.state.processed + 1, max(log.end, self._upload.position + 1))
        except LookupError:
            return self._fail("its log is compacted away")
        self._partition.store.put(self._place, Contents(base, records))
        return self._then("verify", self._verify)

    def _verify(self) -> None:
        if not self._partition.store.verify(self._place):
            raise StoreError  # what was stored is not what was sent
        self._then("complete", self._complete)

    def _complete(self) -> None:
        self._partition.store.change(self._place, expected=CopyState.IN_PROGRESS, new=CopyState.COMPLETED)
        self._unpin()

    def _fail(self, reason: str) -> None:
        """Said again until the store has it, or the leader dies, and a later one says it."""

        def say() -> None:
            if not self._leader.goes_on:
                return
            try:
                self._partition.store.create(self._place, self._copy(CopyState.FAILED, reason))
                self._partition.store.change(
                    self._place, expected=CopyState.IN_PROGRESS, new=CopyState.FAILED, reason=reason
                )
                self._unpin()
            except StoreError:
                self._partition.scheduler.soon(STEP_S, say)

        say()

    def _copy(self, state: CopyState, reason: str = "") -> Copy:
        return Copy(
            partition=self._partition.number,
            checkpoint=self._upload.checkpoint,
            term=self._leader.term,
            state=state,
            position=self._upload.position,
            partitions=self._partition.partitions,
            reason=reason,
        )
