"""The upload of one local checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsite_participant import bcs, bcs_copies
from offsite_participant.bcs_copies import Beginning, Copy, CopyState
from tests.simulation.store import Contents, StoreError
from tests.simulation.store_work import Step, StoreWork

if TYPE_CHECKING:
    from tests.simulation.leader import Leader

ATTEMPTS = 6
NO_BASE = "no snapshot before it"


class RunningUpload(StoreWork):
    """Nothing is copied, and no copy fails, before it has looked once more with its own one in progress (`_is_put`).
    Until then it tries for as long as it leads; from then on, the copy fails after so many attempts."""

    def __init__(self, leader: Leader, upload: bcs.Upload) -> None:
        super().__init__(leader)
        self._upload, self._is_put, self._left = upload, False, ATTEMPTS

    def begin(self) -> None:
        self._then("look", self._look)

    def _look(self) -> None:
        copies, number = self._partition.copies(), self._partition.number
        checkpoint, term = self._upload.checkpoint, self._leader.term
        decided = bcs_copies.beginning(
            copies, partition=number, checkpoint=checkpoint, term=term, restored=self._partition.restored
        )
        older = bcs_copies.superseded(copies, partition=number, checkpoint=checkpoint, term=term)
        if decided is not Beginning.COPY:
            self._partition.scheduler.tell("not copied", f"{self._partition.name} {checkpoint} {decided}")
            self._then("give way", lambda: self._ended(CopyState.ABANDONED)) if self._is_put else self._unpin()
        elif each := next(older, None):
            self._then("abandon", lambda: self._abandon(each))
        elif self._is_put:
            self._try("put", self._put)
        else:
            self._then("create", self._create)

    def _abandon(self, copy: Copy) -> None:
        self._end_other(copy, CopyState.ABANDONED)
        self.begin()

    def _create(self) -> None:
        self._put_own(self._upload)
        self._is_put = True
        self._begun()

    def _begun(self) -> None:
        self.begin()

    def _try(self, name: str, step: Step) -> None:
        def spent() -> None:
            self._left -= 1
            self._try(name, step) if self._left > 0 else self._fail("the store fails")

        self._then(name, step, spent=spent)

    def _put(self) -> None:
        base = self._partition.pinned(self._upload.checkpoint, self._leader.term)
        if base is None:
            return self._fail(NO_BASE)
        log = self._partition.log
        try:  # segments go as they are, with what is behind the checkpoint
            records = log.read(base.state.processed + 1, max(log.end, self._upload.position + 1))
        except LookupError:
            return self._fail("its log is compacted away")
        self._partition.store.put(self._place(self._upload), Contents(base, records))
        return self._try("verify", self._verify)

    def _verify(self) -> None:
        if not self._partition.store.verify(self._place(self._upload)):
            raise StoreError  # what was stored is not what was sent
        self._try("complete", lambda: self._ended(CopyState.COMPLETED))

    def _fail(self, reason: str) -> None:
        self._then("fail", lambda: self._ended(CopyState.FAILED, reason))

    def _ended(self, state: CopyState, reason: str = "") -> None:
        self._end_own(self._upload, state, reason)
        self._unpin()

    def _unpin(self) -> None:
        self._partition.unpin(self._upload.checkpoint, self._leader.term)
