"""Commits as bytes: the canonical JSON form, and its strict reader."""

from __future__ import annotations

import hashlib

from offsite.log.batch import LastBatch
from offsite.log.range import PartitionId
from offsite.model.bounds import MAX_COMMIT_TIME_MS
from offsite.model.errors import DamagedCommit, OffsiteError
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.commit import (
    FOR_EVER,
    LIVE,
    NO_EPOCH,
    NOT_DELETED,
    Checkpoint,
    Commit,
    CommitChanges,
    CompactedRange,
    CutBack,
    ExpiredRange,
    LeftBehindPartition,
    PassProgress,
    Pin,
    Position,
    ProvenGap,
    RecordedHole,
    SnapshotRef,
    TopicShape,
)
from offsite.repository.json_form import (
    FORMAT,
    FORMAT_PACKS,
    FORMAT_RETENTION,
    NEWEST_FORMAT,
    encode_object,
    parse_json_object,
)
from offsite.repository.layout import BackupLayout, lies_below
from offsite.repository.segments.part import part_from_json, part_to_json
from offsite.repository.segments.segment import segment_from_json, segment_to_json

_HINT = (
    "run offsite verify to see the remaining restore points; restore the object from the store's versions or from a "
    "copy, or continue under another backup name"
)


def encode_commit(commit: Commit) -> bytes:
    """The canonical bytes of `commit`. Empty lists and absent parts are left out."""
    return encode_object(
        {
            "format": _format_of(commit.changes),
            "backup": commit.backup,
            "seq": commit.seq,
            "previous": commit.previous,
            "writer": commit.writer,
            "committed_at_ms": commit.committed_at_ms,
            "records": commit.records,
            "raw_bytes": commit.raw_bytes,
            "stored_bytes": commit.stored_bytes,
            **({} if commit.catalog is None else {"catalog": commit.catalog}),
            **_changes_to_json(commit.changes),
        }
    )


def _format_of(changes: CommitChanges) -> int:
    """The oldest format whose readers understand `changes`."""
    if changes.touches_retention:
        return FORMAT_RETENTION
    is_packed = any(segment.pack is not None for segment in changes.segments)
    return FORMAT_PACKS if is_packed or changes.cut_back else FORMAT


def decode_commit(data: bytes, *, key: str) -> Commit:
    """Read the commit object `key`. Raises `FormatTooNew`, and `DamagedCommit` for anything that no writer of offsite
    writes. Unknown keys are ignored."""
    document = parse_json_object(data, source=key, damaged=damaged_commit, newest=NEWEST_FORMAT)
    try:
        commit = _commit_from_json(document)
        _check_names(commit, key)
    except OffsiteError as error:
        raise damaged_commit(error.message if key in error.message else f"{key}: {error.message}") from error
    written = (document.integer("records"), document.integer("raw_bytes"), document.integer("stored_bytes"))
    if written != (commit.records, commit.raw_bytes, commit.stored_bytes):
        raise damaged_commit(f"{key}: its counts differ from the sums of its segments")
    return commit


def _check_names(commit: Commit, key: str) -> None:
    """Check that every object named by a commit lies in the commit's own backup, in the folder of its kind."""
    layout = BackupLayout(backup=commit.backup)
    changes = commit.changes
    for segment in changes.segments:  # segment_from_json compared the rest of the key
        if not segment.key.startswith(layout.topics_prefix):
            raise damaged_commit(f"{key}: it names {segment.key!r}, which is not a segment of backup {commit.backup}")
        if segment.pack is not None and not layout.is_pack(segment.pack):
            raise damaged_commit(f"{key}: it names {segment.pack!r}, which is not a pack of backup {commit.backup}")
    named = [
        *([(changes.groups, layout.groups_prefix)] if changes.groups else []),
        *([(changes.metadata.key, layout.metadata_prefix)] if changes.metadata else []),
        *([(changes.cut.key, layout.cuts_prefix)] if changes.cut else []),
    ]
    for name, prefix in named:
        if not lies_below(name, prefix):
            raise damaged_commit(f"{key}: it names {name!r}, which is not an object of backup {commit.backup}")


def commit_hash(data: bytes) -> str:
    """The hash that the next commit names as `previous`: SHA-256 of the stored bytes, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def damaged_commit(message: str) -> DamagedCommit:
    return DamagedCommit(message, hint=_HINT)


def topic_to_json(shape: TopicShape) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {
        "topic": shape.topic,
        "topic_id": shape.topic_id,
        "partitions": shape.partitions,
        "replication_factor": shape.replication_factor,
        "configs": dict(shape.configs),
    }
    flags = {
        "holds_schemas": shape.holds_schemas,
        "was_compacted": shape.was_compacted,
        "configs_unread": shape.configs_unread,
    }
    fields |= {name: True for name, is_set in flags.items() if is_set}
    return fields | ({"deleted_ms": shape.deleted_ms} if shape.is_deleted else {})


def topic_from_json(document: JsonObject) -> TopicShape:
    return TopicShape(
        topic=document.topic(),
        topic_id=document.text("topic_id"),
        partitions=document.partition("partitions"),
        replication_factor=document.integer("replication_factor"),
        configs=document.text_map("configs"),
        holds_schemas=document.optional_flag("holds_schemas"),
        was_compacted=document.optional_flag("was_compacted"),
        deleted_ms=document.integer_or("deleted_ms", NOT_DELETED),
        configs_unread=document.optional_flag("configs_unread"),
    )


def position_to_json(position: Position) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {
        **partition_to_json(position.partition_id),
        "log_start": position.log_start,
        "end": position.end,
    }
    fields |= {} if position.leader_epoch == NO_EPOCH else {"leader_epoch": position.leader_epoch}
    return fields | ({} if position.last_batch is None else {"last_batch": _batch_to_json(position.last_batch)})


def position_from_json(document: JsonObject) -> Position:
    return Position(
        partition_id=partition_from_json(document),
        log_start=document.count("log_start"),
        end=document.count("end"),
        leader_epoch=document.integer_or("leader_epoch", NO_EPOCH),
        last_batch=_batch_from_json(document.optional_child("last_batch")),
    )


def _batch_to_json(batch: LastBatch) -> dict[str, JsonValue]:
    return {"last_offset": batch.last_offset, "crc": batch.crc}


def _batch_from_json(document: JsonObject | None) -> LastBatch | None:
    return (
        None
        if document is None
        else LastBatch(last_offset=document.integer("last_offset"), crc=document.integer("crc"))
    )


def hole_to_json(hole: RecordedHole) -> dict[str, JsonValue]:
    return {**partition_to_json(hole.partition_id), "start": hole.start, "end": hole.end, "reason": hole.reason}


def hole_from_json(document: JsonObject) -> RecordedHole:
    start, end = _span(document)
    return RecordedHole(
        partition_id=partition_from_json(document),
        start=start,
        end=end,
        reason=document.text("reason"),
    )


def _cut_to_json(cut: CutBack) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {
        **partition_to_json(cut.partition_id),
        "at": cut.at,
        "end": cut.end,
        "epoch": cut.epoch,
        "leader_epoch": cut.leader_epoch,
    }
    parts = {"below": part_to_json(cut.below), "above": part_to_json(cut.above)}
    return fields | {name: part for name, part in parts.items() if part is not None}


def _cut_from_json(document: JsonObject) -> CutBack:
    if document.count("at") >= document.count("end"):
        raise document.wrong("at", "an offset before its end")
    if document.count("epoch") >= document.count("leader_epoch"):
        raise document.wrong("leader_epoch", "a later epoch")
    return CutBack(
        partition_id=partition_from_json(document),
        at=document.count("at"),
        end=document.count("end"),
        epoch=document.count("epoch"),
        leader_epoch=document.count("leader_epoch"),
        below=part_from_json(document.optional_child("below")),
        above=part_from_json(document.optional_child("above")),
    )


def left_behind_to_json(partition: LeftBehindPartition) -> dict[str, JsonValue]:
    return {**partition_to_json(partition.partition_id), "error": partition.error}


def left_behind_from_json(document: JsonObject) -> LeftBehindPartition:
    return LeftBehindPartition(partition_id=partition_from_json(document), error=document.text("error"))


def _gap_to_json(gap: ProvenGap) -> dict[str, JsonValue]:
    return {
        **partition_to_json(gap.partition_id),
        "start": gap.start,
        "end": gap.end,
        "evidence": gap.evidence,
        "seen_at": gap.seen_at,
    }


def _gap_from_json(document: JsonObject) -> ProvenGap:
    start, end = _span(document)
    return ProvenGap(
        partition_id=partition_from_json(document),
        start=start,
        end=end,
        evidence=document.text("evidence"),
        seen_at=document.integer("seen_at"),
    )


def _span(document: JsonObject) -> tuple[int, int]:
    start, end = document.count("start"), document.count("end")
    if start >= end:
        raise document.wrong("end", "an offset behind its start")
    return start, end


def expired_to_json(expired: ExpiredRange) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {
        **partition_to_json(expired.partition_id),
        "start": expired.start,
        "end": expired.end,
    }
    return fields | ({"branch": expired.branch} if expired.branch != LIVE else {})


def expired_from_json(document: JsonObject) -> ExpiredRange:
    start, end = _span(document)
    branch = document.count("branch") if "branch" in document.fields else LIVE
    return ExpiredRange(partition_id=partition_from_json(document), start=start, end=end, branch=branch)


def compacted_to_json(compacted: CompactedRange) -> dict[str, JsonValue]:
    until: dict[str, JsonValue] = {"until_ms": compacted.until_ms} if compacted.until_ms >= 0 else {}
    return {**partition_to_json(compacted.partition_id), "start": compacted.start, "end": compacted.end, **until}


def compacted_from_json(document: JsonObject) -> CompactedRange:
    start, end = _span(document)
    until_ms = document.integer_or("until_ms", -1)
    return CompactedRange(partition_id=partition_from_json(document), start=start, end=end, until_ms=until_ms)


def pin_to_json(pin: Pin) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {"seq": pin.seq, "reason": pin.reason}
    return fields | ({"until_ms": pin.until_ms} if pin.until_ms != FOR_EVER else {})


def pin_from_json(document: JsonObject) -> Pin:
    until_ms = document.count("until_ms") if "until_ms" in document.fields else FOR_EVER
    return Pin(seq=document.count("seq"), reason=document.text("reason"), until_ms=until_ms)


def ref_to_json(ref: SnapshotRef | None) -> dict[str, JsonValue] | None:
    return None if ref is None else {"key": ref.key, "hash": ref.hash}


def ref_from_json(document: JsonObject | None) -> SnapshotRef | None:
    return None if document is None else SnapshotRef(key=document.text("key"), hash=document.text("hash"))


def checkpoint_to_json(checkpoint: Checkpoint) -> dict[str, JsonValue]:
    return {
        "id": checkpoint.id,
        "taken_at_ms": checkpoint.taken_at_ms,
        "ends": [{**partition_to_json(partition_id), "end": end} for partition_id, end in checkpoint.ends],
        "classes": dict(checkpoint.classes),
    }


def checkpoint_from_json(document: JsonObject) -> Checkpoint:
    return Checkpoint(
        id=document.integer("id"),
        taken_at_ms=document.integer("taken_at_ms"),
        ends=tuple((partition_from_json(end), end.count("end")) for end in document.children("ends")),
        classes=document.text_map("classes"),
    )


def partition_to_json(partition_id: PartitionId) -> dict[str, JsonValue]:
    return {"topic": partition_id.topic, "topic_id": partition_id.topic_id, "partition": partition_id.partition}


def partition_from_json(document: JsonObject) -> PartitionId:
    return PartitionId(topic=document.topic(), topic_id=document.text("topic_id"), partition=document.partition())


def progress_to_json(progress: PassProgress | None) -> JsonValue:
    return None if progress is None else {"copied": progress.copied, "planned": progress.planned}


def progress_from_json(document: JsonObject | None) -> PassProgress | None:
    return (
        None if document is None else PassProgress(copied=document.count("copied"), planned=document.count("planned"))
    )


def _changes_to_json(changes: CommitChanges) -> dict[str, JsonValue]:
    parts: dict[str, JsonValue] = {
        "segments": [segment_to_json(segment) for segment in changes.segments],
        "removed": list(changes.removed),
        "holes": [hole_to_json(hole) for hole in changes.holes],
        "explained": [hole_to_json(hole) for hole in changes.explained],
        "gaps": [_gap_to_json(gap) for gap in changes.gaps],
        "accounted": changes.accounted,
        "cut_back": [_cut_to_json(cut) for cut in changes.cut_back],
        "left_behind": [left_behind_to_json(partition) for partition in changes.left_behind],
        "incomplete": changes.incomplete,
        "seal": changes.seal,
        "progress": progress_to_json(changes.progress),
        "positions": [position_to_json(position) for position in changes.positions],
        "topics": [topic_to_json(shape) for shape in changes.topics],
        "forgotten": [{"start": start, "end": end} for start, end in changes.forgotten],
        "expired": list(map(expired_to_json, changes.expired)),
        "compacted": list(map(compacted_to_json, changes.compacted)),
        "pinned": list(map(pin_to_json, changes.pinned)),
        "unpinned": list(changes.unpinned),
        "groups": changes.groups,
        "metadata": ref_to_json(changes.metadata),
        "cut": ref_to_json(changes.cut),
        "cut_refused": changes.cut_refused,
        "checkpoint": None if changes.checkpoint is None else checkpoint_to_json(changes.checkpoint),
    }
    return {name: part for name, part in parts.items() if part}


def _commit_from_json(document: JsonObject) -> Commit:
    return Commit(
        backup=document.text("backup"),
        seq=document.count("seq"),
        previous=document.text("previous"),
        writer=document.text("writer"),
        committed_at_ms=_commit_time(document),
        changes=_changes_from_json(document),
        catalog=document.optional_text("catalog"),
    )


def _commit_time(document: JsonObject) -> int:
    if (time_ms := document.count("committed_at_ms")) > MAX_COMMIT_TIME_MS:
        raise document.wrong("committed_at_ms", "a time that clocks can show")
    return time_ms


def _changes_from_json(document: JsonObject) -> CommitChanges:
    checkpoint = document.optional_child("checkpoint")
    return CommitChanges(
        segments=tuple(segment_from_json(segment) for segment in document.children("segments")),
        removed=document.texts("removed"),
        holes=tuple(hole_from_json(hole) for hole in document.children("holes")),
        explained=tuple(hole_from_json(hole) for hole in document.children("explained")),
        gaps=tuple(_gap_from_json(gap) for gap in document.children("gaps")),
        cut_back=tuple(map(_cut_from_json, document.children("cut_back"))),
        left_behind=tuple(map(left_behind_from_json, document.children("left_behind"))),
        accounted=document.optional_flag("accounted"),
        incomplete=document.optional_flag("incomplete"),
        seal=document.optional_flag("seal"),
        progress=progress_from_json(document.optional_child("progress")),
        positions=tuple(position_from_json(position) for position in document.children("positions")),
        topics=tuple(topic_from_json(shape) for shape in document.children("topics")),
        forgotten=tuple((span.count("start"), span.count("end")) for span in document.children("forgotten")),
        expired=tuple(map(expired_from_json, document.children("expired"))),
        compacted=tuple(map(compacted_from_json, document.children("compacted"))),
        pinned=tuple(map(pin_from_json, document.children("pinned"))),
        unpinned=document.integers("unpinned") if "unpinned" in document.fields else (),
        groups=document.optional_text("groups"),
        metadata=ref_from_json(document.optional_child("metadata")),
        cut=ref_from_json(document.optional_child("cut")),
        cut_refused=document.optional_flag("cut_refused"),
        checkpoint=None if checkpoint is None else checkpoint_from_json(checkpoint),
    )
