"""The changes of a manifest by an export and by retention; everything else in the document stays unchanged. Pure.

New segments join the list; their times are the least and the greatest of the records, as expected by the tool's
pruning. Segments removed by retention leave their partition, and an entry of `pruned` records the removed offsets and
the time, in the tool's form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from offsite.archives.archive import ArchiveTopic, FileReceipt
from offsite.archives.osodevops.manifest import Manifest, ToolObject
from offsite.archives.retention import ExpiringFile
from offsite.log.range import TopicPartition

JsonObject = dict[str, object]
REASON = "retention"
"""The tool's word for removal by age."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestUpdate:
    """The additions of an export to a manifest. `backup_id` and `cluster_id`: for a new manifest; `now_ms`: when the
    segments were written."""

    manifest: Manifest
    backup_id: str
    cluster_id: str
    now_ms: int

    def with_files(self, files: Sequence[FileReceipt], topics: Sequence[ArchiveTopic]) -> bytes:
        """Return the new `manifest.json`. A file listed before replaces the old entry."""
        recorded: Mapping[str, object] = self.manifest.document.fields
        fields: JsonObject = {**self._beginning(), **recorded}
        rows = _Rows(_objects(recorded, "topics"), "name")
        described = {topic.topic: topic for topic in topics}
        for name in sorted({*described, *(receipt.range.topic for receipt in files)}):
            row = rows.get(name)
            if name in described:
                _describe(row, described[name])
            else:
                row.setdefault("partitions", [])
        for receipt in files:
            self._list(rows.get(receipt.range.topic), receipt)
        fields["topics"] = rows.all()
        return json.dumps(fields, indent=2).encode()

    def _beginning(self) -> JsonObject:
        return {
            "backup_id": self.backup_id,
            "created_at": self.now_ms,
            "source_cluster_id": self.cluster_id or None,
            "source_brokers": [],
            "compression": "zstd",
        }

    def _list(self, topic: JsonObject, receipt: FileReceipt) -> None:
        partitions = _Rows(_objects(topic, "partitions"), "partition_id")
        row = partitions.get(receipt.range.partition)
        entry = self._entry(receipt)
        other_entries = [segment for segment in _objects(row, "segments") if segment.get("key") != entry["key"]]
        row["segments"] = sorted((*other_entries, entry), key=_start)
        topic["partitions"] = partitions.all()

    def _entry(self, receipt: FileReceipt) -> JsonObject:
        return {
            "key": f"{self.backup_id}/{receipt.name.removeprefix(self.manifest.prefix)}",
            "start_offset": receipt.first_offset,
            "end_offset": receipt.last_offset,
            "start_timestamp": receipt.timestamp_min_ms,
            "end_timestamp": receipt.timestamp_max_ms,
            "record_count": receipt.records,
            "uncompressed_size": receipt.plain_bytes,
            "compressed_size": receipt.size_bytes,
            "sha256": receipt.content_hash,
            "uploaded_at": self.now_ms,
        }


class _Rows:
    """A list of objects identified by a field; a missing object is created on request."""

    def __init__(self, rows: Sequence[Mapping[str, object]], name: str) -> None:
        self._name = name
        self._rows: dict[object, JsonObject] = {row[name]: dict(row) for row in rows}

    def get(self, value: object) -> JsonObject:
        return self._rows.setdefault(value, {self._name: value})

    def all(self) -> list[JsonObject]:
        return list(self._rows.values())


def _describe(row: JsonObject, topic: ArchiveTopic) -> None:
    recorded_count = row.get("original_partition_count")
    row["original_partition_count"] = max(topic.partitions, recorded_count if isinstance(recorded_count, int) else 0)
    if topic.replication_factor > 0:
        row["source_replication_factor"] = topic.replication_factor
    if topic.configs:
        row["configurations"] = dict(topic.configs)
    row.setdefault("partitions", [])


def _start(segment: Mapping[str, object]) -> int:
    value = segment["start_offset"]
    return value if isinstance(value, int) else 0


def _objects(fields: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    """Return a list of objects from a parsed manifest, whose lists hold objects."""
    rows = fields.get(name)
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


_Change = Callable[[JsonObject, TopicPartition], JsonObject]


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
