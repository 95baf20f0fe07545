"""Takes checkpoints, and says what became of them, from the store alone. It has no state: start it anywhere, twice."""

from __future__ import annotations

import time
from dataclasses import asdict

from examples.stream_processor.copies import CopyStore
from examples.stream_processor.network import Network
from examples.stream_processor.place import Place
from examples.stream_processor.records import CHECKPOINT_CREATE, Message
from offsite.cut.bcs import Create
from offsite.cut.bcs_copies import BackupStatus, status_of
from offsite.stores.store import PutResult

REPEAT_S = 0.5
UNDECIDED = {BackupStatus.DOES_NOT_EXIST, BackupStatus.INCOMPLETE, BackupStatus.ONGOING}


class Coordinator:
    def __init__(self, place: Place) -> None:
        self._place, self._copies, self._network = place, CopyStore(place), Network(place)
        self._partitions = self._copies.begun.partitions

    def new_id(self) -> int:
        """Higher than all before, and nobody else's: an id is used once, also if its checkpoint fails."""
        store, prefix = self._place.store(), f"{self._place.prefix}ids/"
        taken = [int(each.key.removeprefix(prefix)) for each in store.list(prefix)]
        checkpoint = max([self._copies.begun.checkpoint, *taken]) + 1
        while store.put_if_absent(f"{prefix}{checkpoint:010d}", f"{time.time_ns()}".encode()) is not PutResult.CREATED:
            checkpoint += 1
        return checkpoint

    def take(self, checkpoint: int, *, patience_s: float = 30.0) -> BackupStatus:
        """Ask all partitions, again and again, until each has begun; then wait for the end. The status after that, or
        after `patience_s`."""
        deadline_s = time.monotonic() + patience_s
        while (status := self.status(checkpoint)) in UNDECIDED and time.monotonic() < deadline_s:
            if status is not BackupStatus.ONGOING:
                self.ask(checkpoint, *range(1, self._partitions + 1))
            time.sleep(REPEAT_S / 2)
        return status

    def ask(self, checkpoint: int, *partitions: int) -> None:
        """Ask these partitions once."""
        create = asdict(Create(checkpoint=checkpoint))
        for each in partitions:
            self._network.send(Message(to=each, kind=CHECKPOINT_CREATE, body=create))
        self._network.flush()

    def status(self, checkpoint: int) -> BackupStatus:
        copies = [each.copy for each in self._copies.copies(checkpoint)]
        return status_of(copies, checkpoint=checkpoint, partitions=self._partitions)
