"""The objects about the checkpoints of a backup: listed, read, created. Nothing is deleted here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from offsite.model.errors import DamagedObject
from offsite.repository.backup import Backup
from offsite.repository.checkpoints.marker import (
    CheckpointNote,
    TakenCheckpoint,
    decode_note,
    decode_taken,
    encode_note,
    encode_taken,
)
from offsite.repository.layout import BackupLayout, own_objects, parse_checkpoint_key
from offsite.repository.restores.layout import LeaseLayout
from offsite.stores.store import PutResult, Store


class CheckpointEvent(StrEnum):
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
            prefix=self.layout.checkpoint_taker_prefix, resource=f"taking checkpoints of backup {self.layout.backup}"
        )

    def events(self, *, after: int = -1) -> Mapping[int, frozenset[CheckpointEvent]]:
        """The events of every checkpoint with an id above `after`, by rising id: a single listing of keys."""
        start = "" if after < 0 else self.layout.checkpoint_key(after, "zz")  # behind all of its notes
        events: dict[int, set[CheckpointEvent]] = {}
        for info in own_objects(self.store.list(self.layout.checkpoints_prefix, start_after=start)):
            parsed = parse_checkpoint_key(info.key)
            if parsed is not None and parsed[1] in set(CheckpointEvent):
                events.setdefault(parsed[0], set()).add(CheckpointEvent(parsed[1]))
        return {checkpoint: frozenset(id_events) for checkpoint, id_events in events.items()}

    def events_of(self, checkpoint: int) -> frozenset[CheckpointEvent]:
        """The events of an id."""
        return frozenset(
            event for event in CheckpointEvent if self.store.head(self.layout.checkpoint_key(checkpoint, event))
        )

    def taken(self, checkpoint: int) -> TakenCheckpoint | None:
        """Read a taken checkpoint. Raises `DamagedObject`, `FormatTooNew`."""
        key = self.layout.checkpoint_key(checkpoint, CheckpointEvent.TAKEN)
        data = self.store.get(key)
        taken_checkpoint = None if data is None else decode_taken(data, key=key)
        _check_is(checkpoint, taken_checkpoint.note if taken_checkpoint else None, key)
        return taken_checkpoint

    def note(self, checkpoint: int, event: CheckpointEvent) -> CheckpointNote | None:
        """Read a note. Raises `DamagedObject`, `FormatTooNew`."""
        key = self.layout.checkpoint_key(checkpoint, event)
        data = self.store.get(key)
        note = None if data is None else decode_note(data, key=key)
        _check_is(checkpoint, note, key)
        return note

    def put_taken(self, checkpoint: TakenCheckpoint) -> bool:
        """Take an id. Returns whether the record is ours: of any number of racing writers exactly one takes an id.
        Durable on return."""
        key = self.layout.checkpoint_key(checkpoint.id, CheckpointEvent.TAKEN)
        return self.store.put_if_absent(key, encode_taken(checkpoint)) is not PutResult.OTHER

    def put(self, note: CheckpointNote, event: CheckpointEvent) -> bool:
        """Put a note. Returns whether the stored note is ours. Durable on return."""
        key = self.layout.checkpoint_key(note.id, event)
        return self.store.put_if_absent(key, encode_note(note)) is not PutResult.OTHER


def _check_is(checkpoint: int, note: CheckpointNote | None, key: str) -> None:
    if note is not None and note.id != checkpoint:
        raise DamagedObject(f"{key} is about checkpoint {note.id}")
