"""Notes about a checkpoint beside the commits: requested, taken, failed or deleted. Pure values.

Every note is an object that is created once. Only a commit that carries the id completes a checkpoint; `taken` says
where every partition is to end, before anything is copied.
"""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.errors import DamagedObject
from offsite.model.untrusted.bounds import MAX_COMMIT_TIME_MS
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
class ToldCheckpoint:
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

    told: ToldCheckpoint
    cluster_id: str
    base: int
    ends: tuple[TakenEnd, ...]
    sick: tuple[SickEnd, ...] = ()
    participants: tuple[CheckpointParticipant, ...] = ()

    @property
    def id(self) -> int:
        return self.told.id

    def carried(self) -> Checkpoint:
        """The content of the commit that completes the checkpoint."""
        ends = tuple((each.partition_id, each.end) for each in self.ends)
        return Checkpoint(id=self.id, taken_at_ms=self.told.at_ms, ends=ends)


def encode_told(told: ToldCheckpoint) -> bytes:
    return encode_object({"format": FORMAT, **_told_fields(told)})


def decode_told(data: bytes, *, key: str) -> ToldCheckpoint:
    """Decode the note at `key`. Raises `DamagedObject`, `FormatTooNew`."""
    return _told(parse_json_object(data, source=key, damaged=_damaged))


def encode_taken(taken: TakenCheckpoint) -> bytes:
    return encode_object(
        {
            "format": FORMAT,
            **_told_fields(taken.told),
            "cluster_id": taken.cluster_id,
            "base": taken.base,
            "ends": [{**partition_to_json(each.partition_id), "end": each.end} for each in taken.ends],
            "sick": [{"topic": each.topic, "partition": each.partition, "error": each.error} for each in taken.sick],
            **participants_to_json(taken.participants),
        }
    )


def decode_taken(data: bytes, *, key: str) -> TakenCheckpoint:
    """Decode the taken checkpoint at `key`. Raises `DamagedObject`, `FormatTooNew`."""
    item = parse_json_object(data, source=key, damaged=_damaged)
    ends = tuple(
        TakenEnd(partition_id=partition_from_json(each), end=each.count("end")) for each in item.children("ends")
    )
    if len({each.partition_id for each in ends}) != len(ends):
        raise item.wrong("ends", "one end for each partition")
    sick = item.children("sick")
    return TakenCheckpoint(
        told=_told(item),
        cluster_id=item.text("cluster_id"),
        base=item.count("base"),
        ends=ends,
        sick=tuple(SickEnd(topic=one.topic(), partition=one.partition(), error=one.text("error")) for one in sick),
        participants=participants_from_json(item),
    )


def _told_fields(told: ToldCheckpoint) -> dict[str, JsonValue]:
    names: list[JsonValue] = [*told.participants, *([STAMPS] if told.stamping else [])]
    needed: dict[str, JsonValue] = {"needs": names} if names else {}
    return {
        **needed,
        **stamping_to_json(told.stamping),
        "id": told.id,
        "at_ms": told.at_ms,
        "by": told.by,
        "writer": told.writer,
        "reason": told.reason[:REASON_MAX],
    }


def _told(item: JsonObject) -> ToldCheckpoint:
    names = item.texts("needs") if "needs" in item.fields else ()
    return ToldCheckpoint(
        id=item.count("id"),
        at_ms=item.integer("at_ms", least=0, most=MAX_COMMIT_TIME_MS),
        by=item.text("by"),
        writer=item.text("writer"),
        reason=item.text("reason"),
        participants=tuple(each for each in names if each != STAMPS),
        stamping=stamping_from_json(item),
    )


def _damaged(message: str) -> DamagedObject:
    return DamagedObject(message, hint="commits are not concerned: see those that carry one with: offsite show BACKUP")
