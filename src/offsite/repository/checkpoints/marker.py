"""Notes about a checkpoint beside the commits: requested, taken, failed or deleted. Pure values.

Every note is an object that is created once. Only a commit that carries the id completes a checkpoint; `taken` says
where every partition is to end, before anything is copied.
"""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.bounds import MAX_COMMIT_TIME_MS
from offsite.model.errors import DamagedObject
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.checkpoints.stamping import Stamping, stamping_from_json, stamping_to_json
from offsite.repository.commit import Checkpoint, PartitionId
from offsite.repository.commit_json import partition_from_json, partition_to_json
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.snapshots.participant import (
    CheckpointParticipant,
    participants_from_json,
    participants_to_json,
)

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
