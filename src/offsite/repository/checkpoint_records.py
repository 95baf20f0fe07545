"""Notes about a checkpoint beside the commits: requested, taken, failed or deleted. They are never deleted.

Every note is an object that is created once. Only a commit that carries the id completes a checkpoint; `taken` says
where every partition is to end, before anything is copied. The request states how applications without transactions
take part (`Stamping`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from offsite.log.range import PartitionId
from offsite.model.bounds import MAX_COMMIT_TIME_MS
from offsite.model.errors import DamagedObject
from offsite.model.names import is_topic_name
from offsite.model.options import StampForm
from offsite.model.selection import is_readable
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.backup import Backup
from offsite.repository.commit import Checkpoint
from offsite.repository.commit_json import partition_from_json, partition_to_json
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.layout import BackupLayout, own_objects, parse_checkpoint_key
from offsite.repository.lease import Lease
from offsite.repository.snapshots.commit_cut import CheckpointParticipant, participants_from_json, participants_to_json
from offsite.stores.store import PutResult, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamping:
    """All writers of `topics` (patterns as in a selection) stamp their records, and hear of checkpoints by `form` in
    `control_topic`."""

    form: StampForm
    topics: tuple[str, ...]
    control_topic: str


def stamping_to_json(stamping: Stamping | None) -> dict[str, JsonValue]:
    """The field of a request, if any."""
    if stamping is None:
        return {}
    topics: list[JsonValue] = list(stamping.topics)
    return {"stamps": {"form": stamping.form.value, "topics": topics, "control_topic": stamping.control_topic}}


def stamping_from_json(request: JsonObject) -> Stamping | None:
    """Decode the field; None without the field. Raises the error of `request` for a damaged field."""
    if "stamps" not in request.fields:
        return None
    document = request.child("stamps")
    topics, control_topic = document.texts("topics"), document.text("control_topic")
    if not topics or not all(map(is_readable, topics)):
        raise document.wrong("topics", "patterns of topics")
    if not is_topic_name(control_topic):
        raise document.wrong("control_topic", "the name of a topic")
    return Stamping(form=_form(document), topics=topics, control_topic=control_topic)


def _form(document: JsonObject) -> StampForm:
    form = document.text("form")
    if form not in set(StampForm):
        raise document.wrong("form", " or ".join(StampForm))
    return StampForm(form)


STAMPS = "offsite:stamps"
"""Stands among the names of required participants if the checkpoint is to be opened to stamping applications: an
offsite that cannot open it fails it."""

REASON_MAX = 1_000
"""Characters of a reason that are stored: lists show all reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointNote:
    """A note about checkpoint `id`, made at `at_ms` (store's clock, epoch ms) `by` somebody, for people. `writer`:
    random, belongs to the process. `reason`: why the checkpoint failed or was deleted; else empty. `participants`:
    names of required participants. `stamping`: how a requested checkpoint is opened to applications."""

    id: int
    at_ms: int
    by: str
    writer: str
    reason: str = ""
    participants: tuple[str, ...] = ()
    stamping: Stamping | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenEnd:
    """Where a partition of a checkpoint is to end (exclusive)."""

    partition_id: PartitionId
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SickEnd:
    """A partition without a known end when the checkpoint was taken, and the id of the error."""

    topic: str
    partition: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenCheckpoint:
    """A taken checkpoint: `ends` holds every partition of the source with an end. `base`: the commit that its pass
    continues, so that any other pass with a commit behind it has passed the checkpoint. `sick` partitions let the
    checkpoint fail. `participants`: participants that have saved a state for the checkpoint."""

    note: CheckpointNote
    cluster_id: str
    base: int
    ends: tuple[TakenEnd, ...]
    sick: tuple[SickEnd, ...] = ()
    participants: tuple[CheckpointParticipant, ...] = ()

    @property
    def id(self) -> int:
        return self.note.id

    def carried(self) -> Checkpoint:
        """The content of the commit that completes the checkpoint."""
        ends = tuple((taken_end.partition_id, taken_end.end) for taken_end in self.ends)
        return Checkpoint(id=self.id, taken_at_ms=self.note.at_ms, ends=ends)


def encode_note(note: CheckpointNote) -> bytes:
    return encode_object({"format": FORMAT, **_note_fields(note)})


def decode_note(data: bytes, *, key: str) -> CheckpointNote:
    """Decode the note at `key`. Raises `DamagedObject`, `FormatTooNew`."""
    return _decode_note(parse_json_object(data, source=key, damaged=_damaged))


def encode_taken(checkpoint: TakenCheckpoint) -> bytes:
    return encode_object(
        {
            "format": FORMAT,
            **_note_fields(checkpoint.note),
            "cluster_id": checkpoint.cluster_id,
            "base": checkpoint.base,
            "ends": [
                {**partition_to_json(taken_end.partition_id), "end": taken_end.end} for taken_end in checkpoint.ends
            ],
            "sick": [
                {"topic": sick_end.topic, "partition": sick_end.partition, "error": sick_end.error}
                for sick_end in checkpoint.sick
            ],
            **participants_to_json(checkpoint.participants),
        }
    )


def decode_taken(data: bytes, *, key: str) -> TakenCheckpoint:
    """Decode the taken checkpoint at `key`. Raises `DamagedObject`, `FormatTooNew`."""
    document = parse_json_object(data, source=key, damaged=_damaged)
    ends = tuple(
        TakenEnd(partition_id=partition_from_json(child), end=child.count("end")) for child in document.children("ends")
    )
    if len({taken_end.partition_id for taken_end in ends}) != len(ends):
        raise document.wrong("ends", "one end for each partition")
    sick = document.children("sick")
    return TakenCheckpoint(
        note=_decode_note(document),
        cluster_id=document.text("cluster_id"),
        base=document.count("base"),
        ends=ends,
        sick=tuple(
            SickEnd(topic=child.topic(), partition=child.partition(), error=child.text("error")) for child in sick
        ),
        participants=participants_from_json(document),
    )


def _note_fields(note: CheckpointNote) -> dict[str, JsonValue]:
    names: list[JsonValue] = [*note.participants, *([STAMPS] if note.stamping else [])]
    needed: dict[str, JsonValue] = {"needs": names} if names else {}
    return {
        **needed,
        **stamping_to_json(note.stamping),
        "id": note.id,
        "at_ms": note.at_ms,
        "by": note.by,
        "writer": note.writer,
        "reason": note.reason[:REASON_MAX],
    }


def _decode_note(document: JsonObject) -> CheckpointNote:
    names = document.texts("needs") if "needs" in document.fields else ()
    return CheckpointNote(
        id=document.count("id"),
        at_ms=document.integer("at_ms", least=0, most=MAX_COMMIT_TIME_MS),
        by=document.text("by"),
        writer=document.text("writer"),
        reason=document.text("reason"),
        participants=tuple(name for name in names if name != STAMPS),
        stamping=stamping_from_json(document),
    )


def _damaged(message: str) -> DamagedObject:
    return DamagedObject(
        message, hint="commits are not affected: list the commits with a checkpoint with: offsite show BACKUP"
    )


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
