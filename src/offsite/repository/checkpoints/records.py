"""The objects about the checkpoints of a backup: listed, read, created. Nothing is deleted here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from offsite.model.errors import DamagedObject
from offsite.repository.backup import Backup
from offsite.repository.checkpoints.marker import (
    TakenCheckpoint,
    ToldCheckpoint,
    decode_taken,
    decode_told,
    encode_taken,
    encode_told,
)
from offsite.repository.layout import BackupLayout, own, parse_checkpoint_key
from offsite.repository.restores.layout import LeaseLayout
from offsite.stores.store import PutResult, Store


class Told(StrEnum):
    """The kinds of notes about a checkpoint, an object each."""

    REQUESTED = "requested"
    """Requested: the process that takes checkpoints of the backup begins with it."""
    TAKEN = "taken"
    """Every partition has an end to be copied to."""
    FAILED = "failed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecords:
    """The notes about the checkpoints of a backup."""

    store: Store
    layout: BackupLayout

    @classmethod
    def of(cls, backup: Backup) -> Self:
        return cls(store=backup.store, layout=backup.layout)

    @property
    def lease(self) -> LeaseLayout:
        """The lease of the process that takes checkpoints."""
        return LeaseLayout(
            prefix=self.layout.checkpoint_taker_prefix, what=f"taking checkpoints of backup {self.layout.backup}"
        )

    def known(self, *, after: int = -1) -> Mapping[int, frozenset[Told]]:
        """The events of every checkpoint with an id above `after`, by rising id: a single listing of keys."""
        start = "" if after < 0 else self.layout.checkpoint_key(after, "zz")  # behind all of its notes
        found: dict[int, set[Told]] = {}
        for info in own(self.store.list(self.layout.checkpoints_prefix, start_after=start)):
            parsed = parse_checkpoint_key(info.key)
            if parsed is not None and parsed[1] in set(Told):
                found.setdefault(parsed[0], set()).add(Told(parsed[1]))
        return {checkpoint: frozenset(told) for checkpoint, told in found.items()}

    def of_id(self, checkpoint: int) -> frozenset[Told]:
        """The events of an id."""
        return frozenset(each for each in Told if self.store.head(self.layout.checkpoint_key(checkpoint, each)))

    def taken(self, checkpoint: int) -> TakenCheckpoint | None:
        """Read a taken checkpoint. Raises `DamagedObject`, `FormatTooNew`."""
        key = self.layout.checkpoint_key(checkpoint, Told.TAKEN)
        data = self.store.get(key)
        found = None if data is None else decode_taken(data, key=key)
        _check_is(checkpoint, found.told if found else None, key)
        return found

    def told(self, checkpoint: int, what: Told) -> ToldCheckpoint | None:
        """Read a note. Raises `DamagedObject`, `FormatTooNew`."""
        key = self.layout.checkpoint_key(checkpoint, what)
        data = self.store.get(key)
        found = None if data is None else decode_told(data, key=key)
        _check_is(checkpoint, found, key)
        return found

    def put_taken(self, taken: TakenCheckpoint) -> bool:
        """Take an id. Returns whether the record is ours: of any number of racing writers exactly one takes an id.
        Durable on return."""
        key = self.layout.checkpoint_key(taken.id, Told.TAKEN)
        return self.store.put_if_absent(key, encode_taken(taken)) is not PutResult.OTHER

    def put(self, told: ToldCheckpoint, what: Told) -> bool:
        """Put a note. Returns whether the stored note is ours. Durable on return."""
        key = self.layout.checkpoint_key(told.id, what)
        return self.store.put_if_absent(key, encode_told(told)) is not PutResult.OTHER


def _check_is(checkpoint: int, told: ToldCheckpoint | None, key: str) -> None:
    if told is not None and told.id != checkpoint:
        raise DamagedObject(f"{key} tells of checkpoint {told.id}")
