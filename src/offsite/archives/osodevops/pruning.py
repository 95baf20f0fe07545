"""The changes of retention in a manifest: segments leave their partition, and an entry of `pruned` records the removed
offsets and the time, in the tool's form. Everything else in the document stays unchanged. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from offsite.archives.osodevops.fields import ToolObject
from offsite.archives.osodevops.manifest import Manifest
from offsite.archives.retention import ExpiringFile
from offsite.log.range import TopicPartition

__all__ = ["PrunedRange", "join_pruned", "read_pruned_ranges", "remove_segments"]

JsonObject = dict[str, object]
_Change = Callable[[JsonObject, TopicPartition], JsonObject]
REASON = "retention"
"""The tool's word for removal by age."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedRange:
    """Offsets `[start, end)` of a partition, pruned at `at_ms`."""

    start: int
    end: int
    at_ms: int


def read_pruned_ranges(manifest: Manifest) -> Mapping[TopicPartition, Sequence[PrunedRange]]:
    """Return the pruned ranges in the manifest, whatever the reason. Raises `NotTheTools`."""
    return {
        _partition(topic, row): [
            PrunedRange(
                start=pruned.integer("start_offset"),
                end=pruned.integer("end_offset") + 1,
                at_ms=pruned.integer_or("pruned_at", 0),
            )
            for pruned in row.children("pruned")
        ]
        for topic in manifest.document.children("topics")
        for row in topic.children("partitions")
    }


def remove_segments(manifest: Manifest, going: Sequence[ExpiringFile], *, now_ms: int) -> JsonObject:
    """Return the document without the entries of the removed segments."""
    by_partition: dict[TopicPartition, list[ExpiringFile]] = {}
    for expiring in going:
        by_partition.setdefault(expiring.file.partition, []).append(expiring)

    def without(row: JsonObject, of: TopicPartition) -> JsonObject:
        gone = by_partition.get(of)
        if not gone:
            return row
        entries = {(expiring.file.name, expiring.file.start) for expiring in gone}
        remaining = [
            segment
            for segment in _rows(row, "segments")
            if (_key(manifest, segment), segment["start_offset"]) not in entries
        ]
        return {**row, "segments": remaining, "pruned": [*_rows(row, "pruned"), _entry(gone, now_ms)]}

    return _changed(manifest, without)


def join_pruned(manifest: Manifest, *, before_ms: int, but: Collection[TopicPartition]) -> JsonObject:
    """Return the document with a single entry per partition for everything pruned by retention before `before_ms`,
    except partitions in `but`, whose objects still exist. Without joining, a manifest would grow with every run."""

    def together(row: JsonObject, of: TopicPartition) -> JsonObject:
        rows = _rows(row, "pruned")
        old = [entry for entry in rows if entry.get("reason") == REASON and _number(entry, "pruned_at") <= before_ms]
        if len(old) < 2 or of in but:
            return row
        return {**row, "pruned": [_sum(old), *(entry for entry in rows if entry not in old)]}

    return _changed(manifest, together)


def _entry(gone: Sequence[ExpiringFile], now_ms: int) -> JsonObject:
    """Make an entry; both offsets are inclusive."""
    return {
        "start_offset": min(expiring.file.start for expiring in gone),
        "end_offset": max(expiring.file.end for expiring in gone) - 1,
        "segments": len(gone),
        "bytes": sum(expiring.file.size_bytes for expiring in gone),
        "pruned_at": now_ms,
        "cutoff_timestamp": max(expiring.last_message_ms for expiring in gone) + 1,
        "reason": REASON,
    }


def _sum(entries: Sequence[Mapping[str, object]]) -> JsonObject:
    ends = {name: max(_number(entry, name) for entry in entries) for name in ("end_offset", "pruned_at")}
    sums = {name: sum(_number(entry, name) for entry in entries) for name in ("segments", "bytes")}
    return {
        **entries[-1],
        **ends,
        **sums,
        "start_offset": min(_number(entry, "start_offset") for entry in entries),
        "cutoff_timestamp": max(_number(entry, "cutoff_timestamp") for entry in entries),
    }


def _changed(manifest: Manifest, change: _Change) -> JsonObject:
    document = dict(manifest.document.fields)
    topics = []
    for topic in manifest.document.children("topics"):
        rows = [change(dict(row.fields), _partition(topic, row)) for row in topic.children("partitions")]
        topics.append({**topic.fields, "partitions": rows} if rows else dict(topic.fields))
    return {**document, "topics": topics}


def _partition(topic: ToolObject, row: ToolObject) -> TopicPartition:
    return TopicPartition(topic=topic.text("name"), partition=row.integer("partition_id"))


def _key(manifest: Manifest, segment: Mapping[str, object]) -> str:
    return manifest.prefix + str(segment["key"]).removeprefix(f"{manifest.backup_id}/")


def _number(row: Mapping[str, object], name: str) -> int:
    value = row.get(name)
    return value if isinstance(value, int) else 0


def _rows(row: JsonObject, name: str) -> list[Mapping[str, object]]:
    """Return a list of objects from a parsed manifest, whose lists hold objects."""
    rows = row.get(name)
    return [document for document in rows if isinstance(document, Mapping)] if isinstance(rows, list) else []
