"""Continues a manifest: new segments join the list, and everything else stays unchanged. Pure.

Times of segments are the least and the greatest of the records, as expected by the tool's pruning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsite.archives.archive import ArchiveTopic, FileReceipt
from offsite.archives.osodevops.manifest import Manifest

__all__ = ["ManifestUpdate"]

JsonObject = dict[str, object]


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
