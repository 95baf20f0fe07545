"""Takes checkpoints, says what became of them, and deletes them, all from the store alone. It has no state: start it
anywhere, twice."""

from __future__ import annotations

import time
from collections.abc import Container
from dataclasses import asdict, dataclass
from functools import cached_property

from examples.stream_processor.copies import CopyStore
from examples.stream_processor.network import Network
from examples.stream_processor.place import Place
from examples.stream_processor.records import CHECKPOINT_CREATE, Message
from offsite.stores.store import PutResult
from offsite_participant.bcs import Create
from offsite_participant.bcs_copies import (
    BackupStatus,
    CopyState,
    PartitionStatus,
    deletable,
    disposable,
    partition_statuses,
    status_of,
)

REPEAT_S = 0.5
NOT_BEGUN = {BackupStatus.DOES_NOT_EXIST, BackupStatus.INCOMPLETE}
UNDECIDED = {*NOT_BEGUN, BackupStatus.ONGOING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is known of a checkpoint, as a whole and of each partition."""

    checkpoint: int
    status: BackupStatus
    partitions: tuple[PartitionStatus, ...]


class Coordinator:
    def __init__(self, place: Place) -> None:
        self._place, self._copies = place, CopyStore(place)
        self._partitions = self._copies.begun.partitions

    def new_id(self) -> int:
        """Higher than all before, and nobody else's: an id is used once, also if its checkpoint fails."""
        checkpoint = max(self._ids()) + 1
        while not self._note(checkpoint):
            checkpoint += 1
        return checkpoint

    def claim(self, checkpoint: int) -> None:
        """Note an id that somebody has chosen; the same one again is the same checkpoint. Raises `ValueError` where a
        higher one was given out: partitions take none below it."""
        ids = self._ids()
        if checkpoint not in ids and checkpoint <= max(ids):
            raise ValueError(f"checkpoint {max(ids)} was asked for already: take {max(ids) + 1}, or a higher one")
        self._note(checkpoint)

    def begin(self, checkpoint: int, *, patience_s: float = 30.0) -> BackupStatus:
        """Ask all partitions, again and again, until each has begun. The status after that, or after `patience_s`."""
        return self._wait(checkpoint, NOT_BEGUN, patience_s)

    def take(self, checkpoint: int, *, patience_s: float = 30.0) -> BackupStatus:
        """As `begin`, and then wait for the end."""
        return self._wait(checkpoint, UNDECIDED, patience_s)

    def ask(self, checkpoint: int, *partitions: int) -> None:
        """Ask these partitions once."""
        create = asdict(Create(checkpoint=checkpoint))
        for each in partitions:
            self._network.send(Message(to=each, kind=CHECKPOINT_CREATE, body=create))
        self._network.flush()

    def status(self, checkpoint: int) -> BackupStatus:
        return self.report(checkpoint).status

    def report(self, checkpoint: int) -> Report:
        copies = [each.copy for each in self._copies.copies(checkpoint)]
        of = {"checkpoint": checkpoint, "partitions": self._partitions}
        return Report(
            checkpoint=checkpoint, status=status_of(copies, **of), partitions=partition_statuses(copies, **of)
        )

    def list(self) -> tuple[Report, ...]:
        """Of each checkpoint of which there is a copy, the newest first."""
        checkpoints = {stored.copy.checkpoint for stored in self._copies.copies()}
        return tuple(map(self.report, sorted(checkpoints, reverse=True)))

    def delete(self, checkpoint: int) -> None:
        """Mark all its copies as deleted, whoever is still at work on one, and then remove their files. What broke off
        is finished by doing it again. Raises `ValueError` for a checkpoint of which nothing is stored, or that another
        processor has taken."""
        if not self._is_own(checkpoint):
            raise ValueError(f"checkpoint {checkpoint} belongs to the processor that this one was restored from")
        if not self._copies.copies(checkpoint):
            raise ValueError(f"nothing is stored of checkpoint {checkpoint}")
        while True:
            stored = {each.copy: each for each in self._copies.copies(checkpoint)}
            left = next(deletable(stored, checkpoint=checkpoint), None)
            if left is None:
                break
            self._copies.change(stored[left], CopyState.DELETED, "somebody deleted it")
        self.clean_up(checkpoint)

    def clean_up(self, checkpoint: int | None = None) -> tuple[str, ...]:
        """Remove the files of copies that failed, were abandoned or deleted, of one checkpoint or of all; their keys.
        What is in progress stays, however old it is."""
        stored = {each.copy: each for each in self._copies.copies(checkpoint)}
        own = [copy for copy in disposable(stored) if self._is_own(copy.checkpoint)]
        return tuple(key for copy in own for key in self._copies.remove_files(stored[copy]))

    @cached_property
    def _network(self) -> Network:
        """Met by whoever asks: all else is in the store."""
        return Network(self._place)

    def _is_own(self, checkpoint: int) -> bool:
        return checkpoint > self._copies.begun.checkpoint

    def _ids(self) -> set[int]:
        prefix = f"{self._place.prefix}ids/"
        given = {int(each.key.removeprefix(prefix)) for each in self._place.store().list(prefix)}
        return {self._copies.begun.checkpoint} | given

    def _note(self, checkpoint: int) -> bool:
        """Whether nobody had noted it."""
        key, moment = f"{self._place.prefix}ids/{checkpoint:010d}", f"{time.time_ns()}".encode()
        return self._place.store().put_if_absent(key, moment) is PutResult.CREATED

    def _wait(self, checkpoint: int, while_in: Container[BackupStatus], patience_s: float) -> BackupStatus:
        deadline_s = time.monotonic() + patience_s
        while (status := self.status(checkpoint)) in while_in and time.monotonic() < deadline_s:
            if status in NOT_BEGUN:
                self.ask(checkpoint, *range(1, self._partitions + 1))
            time.sleep(REPEAT_S / 2)
        return status
