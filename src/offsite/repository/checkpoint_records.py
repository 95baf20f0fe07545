"""Notes about a checkpoint beside the commits: requested, taken, failed or deleted. They are never deleted.

Every note is an object that is created once. Only a commit that carries the id completes a checkpoint; `taken` says
where every partition is to end, before anything is copied. The request states how applications without transactions
take part (`Stamping`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Self

from offsite.model.errors import DamagedObject
from offsite.model.names import is_topic_name
from offsite.model.options import StampForm
from offsite.model.selection import is_readable
from offsite.model.untrusted.json_codec import (
    Count,
    First,
    Form,
    Inline,
    JsonCodec,
    Key,
    PartitionNumber,
    Spare,
    TimeMs,
    TopicName,
    text_up_to,
)
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.backup import Backup
from offsite.repository.commit import Checkpoint, InlinePartition
from offsite.repository.json_form import FORMAT, StoredForm, encode_object
from offsite.repository.layout import BackupLayout, own_objects, parse_checkpoint_key
from offsite.repository.lease import Lease
from offsite.repository.snapshots.commit_cut import CheckpointParticipant
from offsite.stores.store import PutResult, Store

STAMPS = "offsite:stamps"
"""Stands among the names of required participants if the checkpoint is to be opened to stamping applications: an
offsite that cannot open it fails it."""

REASON_MAX = 1_000
"""Characters of a reason that are stored: lists show all reasons."""


def _check_topics(document: JsonObject, name: str) -> None:
    topics, control_topic = document.texts(name), document.text("control_topic")
    if not topics or not all(map(is_readable, topics)):
        raise document.wrong(name, "patterns of topics")
    if not is_topic_name(control_topic):
        raise document.wrong("control_topic", "the name of a topic")


def _read_form(document: JsonObject, name: str) -> StampForm:
    if (form := document.text(name)) not in set(StampForm):
        raise document.wrong(name, " or ".join(StampForm))
    return StampForm(form)


_TOPICS, _STAMP_FORM = First(_check_topics), Form(_read_form)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamping:
    """All writers of `topics` (patterns as in a selection) stamp their records, and hear of checkpoints by `form` in
    `control_topic`."""

    form: Annotated[StampForm, _STAMP_FORM]
    topics: Annotated[tuple[str, ...], _TOPICS]
    control_topic: str


_STAMPING = JsonCodec(Stamping)
_STAMPS = Form(lambda document, name: _STAMPING.read(document.child(name)), _STAMPING.write)
_NEEDED = Form(lambda document, name: tuple(text for text in document.texts(name) if text != STAMPS), list)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointNote:
    """A note about checkpoint `id`, made at `at_ms` (store's clock, epoch ms) `by` somebody, for people. `writer`:
    random, belongs to the process. `reason`: why the checkpoint failed or was deleted; else empty. `participants`:
    names of required participants. `stamping`: how a requested checkpoint is opened to applications."""

    participants: Annotated[Spare[tuple[str, ...]], Key("needs"), _NEEDED] = ()
    id: Count
    at_ms: TimeMs
    by: str
    writer: str
    reason: Annotated[str, text_up_to(REASON_MAX, on_read=False)] = ""
    stamping: Annotated[Spare[Stamping | None], Key("stamps"), _STAMPS] = None


_NOTE = JsonCodec(CheckpointNote)


def _write_note(note: CheckpointNote) -> dict[str, JsonValue]:
    return _NOTE.write(note) | ({"needs": [*note.participants, STAMPS]} if note.stamping else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenEnd:
    """Where a partition of a checkpoint is to end (exclusive)."""

    partition_id: InlinePartition
    end: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class SickEnd:
    """A partition without a known end when the checkpoint was taken, and the id of the error."""

    topic: TopicName
    partition: PartitionNumber
    error: str


_END = JsonCodec(TakenEnd)


def _check_ends(document: JsonObject, name: str) -> None:
    partitions = [_END.read(child).partition_id for child in document.children(name)]
    if len(set(partitions)) != len(partitions):
        raise document.wrong(name, "one end for each partition")


_CARRIED_NOTE = Form(lambda document, _: _NOTE.read(document), _write_note)
_ENDS, _SICK = First(_check_ends), First(JsonObject.children)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenCheckpoint:
    """A taken checkpoint: `ends` holds every partition of the source with an end. `base`: the commit that its pass
    continues, so that any other pass with a commit behind it has passed the checkpoint. `sick` partitions let the
    checkpoint fail. `participants`: participants that have saved a state for the checkpoint."""

    note: Annotated[Inline[CheckpointNote], _CARRIED_NOTE]
    cluster_id: str
    base: Count
    ends: Annotated[tuple[TakenEnd, ...], _ENDS]
    sick: Annotated[tuple[SickEnd, ...], _SICK] = ()
    participants: Spare[tuple[CheckpointParticipant, ...]] = ()

    @property
    def id(self) -> int:
        return self.note.id

    def carried(self) -> Checkpoint:
        """The content of the commit that completes the checkpoint."""
        ends = tuple((taken_end.partition_id, taken_end.end) for taken_end in self.ends)
        return Checkpoint(id=self.id, taken_at_ms=self.note.at_ms, ends=ends)


def _damaged(message: str) -> DamagedObject:
    return DamagedObject(
        message, hint="commits are not affected: list the commits with a checkpoint with: offsite show BACKUP"
    )


_NOTE_FORM = StoredForm(CheckpointNote, damaged=_damaged)
TAKEN_CHECKPOINT = StoredForm(TakenCheckpoint, damaged=_damaged)


def encode_note(note: CheckpointNote) -> bytes:
    return encode_object({"format": FORMAT, **_write_note(note)})


def decode_note(data: bytes, *, key: str) -> CheckpointNote:
    """Decode the note at `key`. Raises `DamagedObject`, `FormatTooNew`."""
    return _NOTE_FORM.decode(data, key=key)


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
    def lease(self) -> Lease:
        """The lease of the process that takes checkpoints."""
        return Lease(
            store=self.store,
            prefix=self.layout.checkpoint_taker_prefix,
            resource=f"taking checkpoints of backup {self.layout.backup}",
            hint="one process takes the checkpoints; this one can when the other ends, or falls silent",
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

    def taken(self, checkpoint: int) -> TakenCheckpoint | None:
        """Read a taken checkpoint. Raises `DamagedObject`, `FormatTooNew`."""
        key = self.layout.checkpoint_key(checkpoint, CheckpointEvent.TAKEN)
        data = self.store.get(key)
        taken_checkpoint = None if data is None else TAKEN_CHECKPOINT.decode(data, key=key)
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
        return self.store.put_if_absent(key, TAKEN_CHECKPOINT.encode(checkpoint)) is not PutResult.OTHER

    def put(self, note: CheckpointNote, event: CheckpointEvent) -> bool:
        """Put a note. Returns whether the stored note is ours. Durable on return."""
        key = self.layout.checkpoint_key(note.id, event)
        return self.store.put_if_absent(key, encode_note(note)) is not PutResult.OTHER


def _check_is(checkpoint: int, note: CheckpointNote | None, key: str) -> None:
    if note is not None and note.id != checkpoint:
        raise DamagedObject(f"{key} is about checkpoint {note.id}")
