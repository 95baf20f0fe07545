"""Commits as bytes: the canonical JSON form, and its strict reader."""

from __future__ import annotations

import hashlib

from offsite.log.batch import LastBatch
from offsite.model.errors import DamagedCommit, OffsiteError
from offsite.model.untrusted.bounds import MAX_COMMIT_TIME_MS
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.commit import (
    FOR_EVER,
    LIVE,
    NO_EPOCH,
    NOT_DELETED,
    Changes,
    Checkpoint,
    Commit,
    CompactedRange,
    CutBack,
    ExpiredRange,
    LeftBehind,
    PartitionId,
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
    "run: offsite verify, to see which restore points are left; bring the object back from the store's versions or "
    "from a copy, or go on under another backup name"
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


def _format_of(changes: Changes) -> int:
    """The oldest format whose readers understand `changes`."""
    if changes.takes_away:
        return FORMAT_RETENTION
    is_packed = any(segment.pack is not None for segment in changes.segments)
    return FORMAT_PACKS if is_packed or changes.cut_back else FORMAT


def decode_commit(data: bytes, *, key: str) -> Commit:
    """Read the commit object `key`. Raises `FormatTooNew`, and `DamagedCommit` for anything that no writer of offsite
    writes. Unknown keys are ignored."""
    item = parse_json_object(data, source=key, damaged=damaged_commit, newest=NEWEST_FORMAT)
    try:
        commit = _commit_from_json(item)
        _check_names(commit, key)
    except OffsiteError as error:
        raise damaged_commit(error.message if key in error.message else f"{key}: {error.message}") from error
    written = (item.integer("records"), item.integer("raw_bytes"), item.integer("stored_bytes"))
    if written != (commit.records, commit.raw_bytes, commit.stored_bytes):
        raise damaged_commit(f"{key}: its counts are not the sums of its segments")
    return commit


def _check_names(commit: Commit, key: str) -> None:
    """Check that every object named by a commit lies in the commit's own backup, in the folder of its kind."""
    layout = BackupLayout(backup=commit.backup)
    changes = commit.changes
    for segment in changes.segments:  # segment_from_json compared the rest of the key
        if not segment.key.startswith(layout.topics_prefix):
            raise damaged_commit(f"{key}: it names {segment.key!r}, which is no segment of backup {commit.backup}")
        if segment.pack is not None and not layout.is_pack(segment.pack):
            raise damaged_commit(f"{key}: it names {segment.pack!r}, which is no pack of backup {commit.backup}")
    named = [
        *([(changes.groups, layout.groups_prefix)] if changes.groups else []),
        *([(changes.metadata.key, layout.metadata_prefix)] if changes.metadata else []),
        *([(changes.cut.key, layout.cuts_prefix)] if changes.cut else []),
    ]
    for name, prefix in named:
        if not lies_below(name, prefix):
            raise damaged_commit(f"{key}: it names {name!r}, which is no object of backup {commit.backup}")


def commit_hash(data: bytes) -> str:
    """The hash that the next commit names as `previous`: SHA-256 of the stored bytes, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def damaged_commit(message: str) -> DamagedCommit:
    return DamagedCommit(message, hint=_HINT)


def topic_to_json(shape: TopicShape) -> dict[str, JsonValue]:
    known: dict[str, JsonValue] = {
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
    known |= {name: True for name, is_set in flags.items() if is_set}
    return known | ({"deleted_ms": shape.deleted_ms} if shape.is_deleted else {})


def topic_from_json(item: JsonObject) -> TopicShape:
    return TopicShape(
        topic=item.topic(),
        topic_id=item.text("topic_id"),
        partitions=item.partition("partitions"),
        replication_factor=item.integer("replication_factor"),
        configs=item.text_map("configs"),
        holds_schemas=item.optional_flag("holds_schemas"),
        was_compacted=item.optional_flag("was_compacted"),
        deleted_ms=item.integer_or("deleted_ms", NOT_DELETED),
        configs_unread=item.optional_flag("configs_unread"),
    )


def position_to_json(position: Position) -> dict[str, JsonValue]:
    known: dict[str, JsonValue] = {
        **partition_to_json(position.partition_id),
        "log_start": position.log_start,
        "end": position.end,
    }
    known |= {} if position.leader_epoch == NO_EPOCH else {"leader_epoch": position.leader_epoch}
    return known | ({} if position.last_batch is None else {"last_batch": _batch_to_json(position.last_batch)})


def position_from_json(item: JsonObject) -> Position:
    return Position(
        partition_id=partition_from_json(item),
        log_start=item.count("log_start"),
        end=item.count("end"),
        leader_epoch=item.integer_or("leader_epoch", NO_EPOCH),
        last_batch=_batch_from_json(item.optional_child("last_batch")),
    )


def _batch_to_json(batch: LastBatch) -> dict[str, JsonValue]:
    return {"last_offset": batch.last_offset, "crc": batch.crc}


def _batch_from_json(item: JsonObject | None) -> LastBatch | None:
    return None if item is None else LastBatch(last_offset=item.integer("last_offset"), crc=item.integer("crc"))


def hole_to_json(hole: RecordedHole) -> dict[str, JsonValue]:
    return {**partition_to_json(hole.partition_id), "start": hole.start, "end": hole.end, "reason": hole.reason}


def hole_from_json(item: JsonObject) -> RecordedHole:
    start, end = _span(item)
    return RecordedHole(
        partition_id=partition_from_json(item),
        start=start,
        end=end,
        reason=item.text("reason"),
    )


def _cut_to_json(cut: CutBack) -> dict[str, JsonValue]:
    known: dict[str, JsonValue] = {
        **partition_to_json(cut.partition_id),
        "at": cut.at,
        "end": cut.end,
        "epoch": cut.epoch,
        "leader_epoch": cut.leader_epoch,
    }
    parts = {"below": part_to_json(cut.below), "above": part_to_json(cut.above)}
    return known | {name: part for name, part in parts.items() if part is not None}


def _cut_from_json(item: JsonObject) -> CutBack:
    if item.count("at") >= item.count("end"):
        raise item.wrong("at", "an offset before its end")
    if item.count("epoch") >= item.count("leader_epoch"):
        raise item.wrong("leader_epoch", "a later epoch")
    return CutBack(
        partition_id=partition_from_json(item),
        at=item.count("at"),
        end=item.count("end"),
        epoch=item.count("epoch"),
        leader_epoch=item.count("leader_epoch"),
        below=part_from_json(item.optional_child("below")),
        above=part_from_json(item.optional_child("above")),
    )


def left_behind_to_json(each: LeftBehind) -> dict[str, JsonValue]:
    return {**partition_to_json(each.partition_id), "error": each.error}


def left_behind_from_json(item: JsonObject) -> LeftBehind:
    return LeftBehind(partition_id=partition_from_json(item), error=item.text("error"))


def _gap_to_json(gap: ProvenGap) -> dict[str, JsonValue]:
    return {
        **partition_to_json(gap.partition_id),
        "start": gap.start,
        "end": gap.end,
        "evidence": gap.evidence,
        "seen_at": gap.seen_at,
    }


def _gap_from_json(item: JsonObject) -> ProvenGap:
    start, end = _span(item)
    return ProvenGap(
        partition_id=partition_from_json(item),
        start=start,
        end=end,
        evidence=item.text("evidence"),
        seen_at=item.integer("seen_at"),
    )


def _span(item: JsonObject) -> tuple[int, int]:
    start, end = item.count("start"), item.count("end")
    if start >= end:
        raise item.wrong("end", "an offset behind its start")
    return start, end


def expired_to_json(each: ExpiredRange) -> dict[str, JsonValue]:
    known: dict[str, JsonValue] = {**partition_to_json(each.partition_id), "start": each.start, "end": each.end}
    return known | ({"branch": each.branch} if each.branch != LIVE else {})


def expired_from_json(item: JsonObject) -> ExpiredRange:
    start, end = _span(item)
    branch = item.count("branch") if "branch" in item.fields else LIVE
    return ExpiredRange(partition_id=partition_from_json(item), start=start, end=end, branch=branch)


def compacted_to_json(each: CompactedRange) -> dict[str, JsonValue]:
    until: dict[str, JsonValue] = {"until_ms": each.until_ms} if each.until_ms >= 0 else {}
    return {**partition_to_json(each.partition_id), "start": each.start, "end": each.end, **until}


def compacted_from_json(item: JsonObject) -> CompactedRange:
    start, end = _span(item)
    until_ms = item.integer_or("until_ms", -1)
    return CompactedRange(partition_id=partition_from_json(item), start=start, end=end, until_ms=until_ms)


def pin_to_json(pin: Pin) -> dict[str, JsonValue]:
    known: dict[str, JsonValue] = {"seq": pin.seq, "reason": pin.reason}
    return known | ({"until_ms": pin.until_ms} if pin.until_ms != FOR_EVER else {})


def pin_from_json(item: JsonObject) -> Pin:
    until_ms = item.count("until_ms") if "until_ms" in item.fields else FOR_EVER
    return Pin(seq=item.count("seq"), reason=item.text("reason"), until_ms=until_ms)


def ref_to_json(ref: SnapshotRef | None) -> dict[str, JsonValue] | None:
    return None if ref is None else {"key": ref.key, "hash": ref.hash}


def ref_from_json(item: JsonObject | None) -> SnapshotRef | None:
    return None if item is None else SnapshotRef(key=item.text("key"), hash=item.text("hash"))


def checkpoint_to_json(checkpoint: Checkpoint) -> dict[str, JsonValue]:
    return {
        "id": checkpoint.id,
        "taken_at_ms": checkpoint.taken_at_ms,
        "ends": [{**partition_to_json(partition_id), "end": end} for partition_id, end in checkpoint.ends],
        "classes": dict(checkpoint.classes),
    }


def checkpoint_from_json(item: JsonObject) -> Checkpoint:
    return Checkpoint(
        id=item.integer("id"),
        taken_at_ms=item.integer("taken_at_ms"),
        ends=tuple((partition_from_json(end), end.count("end")) for end in item.children("ends")),
        classes=item.text_map("classes"),
    )


def partition_to_json(partition_id: PartitionId) -> dict[str, JsonValue]:
    return {"topic": partition_id.topic, "topic_id": partition_id.topic_id, "partition": partition_id.partition}


def partition_from_json(item: JsonObject) -> PartitionId:
    return PartitionId(topic=item.topic(), topic_id=item.text("topic_id"), partition=item.partition())


def progress_to_json(progress: PassProgress | None) -> JsonValue:
    return None if progress is None else {"copied": progress.copied, "planned": progress.planned}


def progress_from_json(item: JsonObject | None) -> PassProgress | None:
    return None if item is None else PassProgress(copied=item.count("copied"), planned=item.count("planned"))


def _changes_to_json(changes: Changes) -> dict[str, JsonValue]:
    parts: dict[str, JsonValue] = {
        "segments": [segment_to_json(segment) for segment in changes.segments],
        "removed": list(changes.removed),
        "holes": [hole_to_json(hole) for hole in changes.holes],
        "explained": [hole_to_json(hole) for hole in changes.explained],
        "gaps": [_gap_to_json(gap) for gap in changes.gaps],
        "accounted": changes.accounted,
        "cut_back": [_cut_to_json(cut) for cut in changes.cut_back],
        "left_behind": [left_behind_to_json(each) for each in changes.left_behind],
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


def _commit_from_json(item: JsonObject) -> Commit:
    return Commit(
        backup=item.text("backup"),
        seq=item.count("seq"),
        previous=item.text("previous"),
        writer=item.text("writer"),
        committed_at_ms=_commit_time(item),
        changes=_changes_from_json(item),
        catalog=item.optional_text("catalog"),
    )


def _commit_time(item: JsonObject) -> int:
    if (time_ms := item.count("committed_at_ms")) > MAX_COMMIT_TIME_MS:
        raise item.wrong("committed_at_ms", "a time that clocks can show")
    return time_ms


def _changes_from_json(item: JsonObject) -> Changes:
    checkpoint = item.optional_child("checkpoint")
    return Changes(
        segments=tuple(segment_from_json(segment) for segment in item.children("segments")),
        removed=item.texts("removed"),
        holes=tuple(hole_from_json(hole) for hole in item.children("holes")),
        explained=tuple(hole_from_json(hole) for hole in item.children("explained")),
        gaps=tuple(_gap_from_json(gap) for gap in item.children("gaps")),
        cut_back=tuple(map(_cut_from_json, item.children("cut_back"))),
        left_behind=tuple(map(left_behind_from_json, item.children("left_behind"))),
        accounted=item.optional_flag("accounted"),
        incomplete=item.optional_flag("incomplete"),
        seal=item.optional_flag("seal"),
        progress=progress_from_json(item.optional_child("progress")),
        positions=tuple(position_from_json(position) for position in item.children("positions")),
        topics=tuple(topic_from_json(shape) for shape in item.children("topics")),
        forgotten=tuple((span.count("start"), span.count("end")) for span in item.children("forgotten")),
        expired=tuple(map(expired_from_json, item.children("expired"))),
        compacted=tuple(map(compacted_from_json, item.children("compacted"))),
        pinned=tuple(map(pin_from_json, item.children("pinned"))),
        unpinned=item.integers("unpinned") if "unpinned" in item.fields else (),
        groups=item.optional_text("groups"),
        metadata=ref_from_json(item.optional_child("metadata")),
        cut=ref_from_json(item.optional_child("cut")),
        cut_refused=item.optional_flag("cut_refused"),
        checkpoint=None if checkpoint is None else checkpoint_from_json(checkpoint),
    )
