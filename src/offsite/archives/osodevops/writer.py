"""Writes backups restorable by osodevops/kafka-backup: segments of version 1, and a manifest, written last.

Continues offsite's own backups and the tool's. Segments missing from the manifest do not exist for readers: segments
left by a crashed export inside the written ranges are replaced, or removed before the manifest is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from offsite.archives.archive import ArchiveTopic, ArchiveWriter, RangeReceipt, refuse_damage
from offsite.archives.files import Files
from offsite.archives.osodevops.group_snapshot import encode_snapshot
from offsite.archives.osodevops.manifest import MANIFEST, SNAPSHOT, Manifest, read_manifest, segment_partition
from offsite.archives.osodevops.manifest_changes import ManifestUpdate
from offsite.archives.osodevops.range_writer import START_DIGITS, RecordEncoder, SegmentRangeWriter
from offsite.archives.osodevops.segment_file import read_segment
from offsite.log.group_offsets import GroupOffsets, offset_count, restrict_to_topics
from offsite.log.range import LogRange, TopicPartition
from offsite.log.records.record import Record
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import BadOption, DamagedArchive
from offsite.model.names import amount

SEGMENT_BYTES = 32 << 20
"""Before compression: held in memory by a task, compressed, during writing."""
MAX_SEGMENT_BYTES = 128 << 20
"""The tool's reader holds a whole segment and all its records in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OsodevopsWriter(ArchiveWriter):
    """Writes osodevops backups. With a `backup_id`, the backup is the folder of the name below the root; without, the
    root is the backup, and the id is the last part of the root's name: the tool gets the place above. `offset_headers`
    appends the tool's `x-original-*` headers, needed by the tool's `header-based` restore of groups. `lossy` leaves out
    properties beyond the format."""

    files: Files
    backup_id: str = ""
    cluster_id: str = ""
    segment_bytes: int = SEGMENT_BYTES
    offset_headers: bool = False
    lossy: bool = False
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        if not 0 < self.segment_bytes <= MAX_SEGMENT_BYTES:
            raise BadOption(f"segments of {self.segment_bytes} bytes: the tool reads up to {MAX_SEGMENT_BYTES}")

    @property
    def divides(self) -> bool:
        """True: names are by first offset, and readers follow the manifest."""
        return True

    def ends(self) -> Mapping[TopicPartition, int]:
        ends = {of: partition.end for of, partition in self._manifest().partitions()}
        return {of: end for of, end in ends.items() if end is not None}

    def last_record(self, of: TopicPartition) -> Record | None:
        segments = [
            segment for partition, row in self._manifest().partitions() if partition == of for segment in row.segments
        ]
        newest = max(segments, key=lambda segment: (segment.end, segment.start), default=None)
        last: Record | None = None
        for batch in () if newest is None else read_segment(self.files, newest, refuse_damage):
            last = batch[-1]
        return last

    def open(self, log_range: LogRange) -> SegmentRangeWriter:
        encoder = RecordEncoder(
            log_range.topic_partition,
            is_lossy=self.lossy,
            offset_headers=self.offset_headers,
            cluster_id=self.cluster_id,
        )
        return SegmentRangeWriter(
            files=self.files,
            log_range=log_range,
            prefix=self._prefix,
            segment_bytes=self.segment_bytes,
            encoder=encoder,
        )

    def finish(
        self, written: Sequence[RangeReceipt], topics: Sequence[ArchiveTopic], groups: Mapping[str, GroupOffsets]
    ) -> tuple[str, ...]:
        manifest = self._manifest()
        files = [receipt for range_receipt in written for receipt in range_receipt.files]
        self._remove_leftovers(manifest, written)
        exported = restrict_to_topics(groups, dict.fromkeys((topic.topic for topic in topics), ""))
        now_ms = self.clock.now_ms()
        if exported:
            self.files.put(self._prefix + SNAPSHOT, encode_snapshot(exported, snapshot_ms=now_ms))
        update = ManifestUpdate(
            manifest=manifest,
            backup_id=manifest.backup_id or self._new_backup_id(),
            cluster_id=self.cluster_id,
            now_ms=now_ms,
        )
        self.files.put(self._prefix + MANIFEST, update.with_files(files, topics))
        return tuple(_left_out(groups, exported))

    @property
    def _prefix(self) -> str:
        return f"{self.backup_id}/" if self.backup_id else ""

    def _manifest(self) -> Manifest:
        manifest = read_manifest(self.files, self._prefix, refuse_damage)
        if manifest is None:
            self._new_backup_id()  # refuses a place that can have none before anything is written
            return Manifest(prefix=self._prefix)
        if self.backup_id not in ("", manifest.backup_id):
            raise DamagedArchive(f"{self._prefix}{MANIFEST} belongs to the backup {manifest.backup_id!r}")
        return manifest

    def _new_backup_id(self) -> str:
        """Return the name of the folder with the manifest, expected by the tool."""
        place, _, name = self.files.url.rstrip("/").rpartition("/")
        chosen_id = self.backup_id or name
        if not chosen_id or (not self.backup_id and place.endswith(":/")):
            raise BadOption(
                f"a backup of this format needs a folder with the name of the backup, and {self.files.url} has no name",
                hint="export into a folder below this place",
            )
        return chosen_id

    def _remove_leftovers(self, manifest: Manifest, written: Sequence[RangeReceipt]) -> None:
        """Remove segments of a crashed export with other cuts: all their records were written again."""
        listed = {segment.key for segment in manifest.segments()}
        listed |= {receipt.name for range_receipt in written for receipt in range_receipt.files}
        for of, ranges in _by_partition(written).items():
            folder = f"{self._prefix}topics/{of.topic}/partition={of.partition}/"
            for info in list(self.files.list(folder)):
                start = _start_by_name(info.key, self._prefix)
                if info.key not in listed and any(log_range.start <= start < log_range.end for log_range in ranges):
                    self.files.delete(info.key)


def _by_partition(written: Sequence[RangeReceipt]) -> dict[TopicPartition, list[LogRange]]:
    ranges: dict[TopicPartition, list[LogRange]] = {}
    for range_receipt in written:
        ranges.setdefault(range_receipt.range.topic_partition, []).append(range_receipt.range)
    return ranges


def _start_by_name(key: str, prefix: str) -> int:
    """Return the offset in the name; -1 for a name not given by offsite: the tool once numbered its segments, in fewer
    digits."""
    digits = key.rpartition("/segment-")[2].removesuffix(".bin.zst")
    is_ours = segment_partition(key, prefix) is not None and len(digits) == START_DIGITS and digits.isdecimal()
    return int(digits) if is_ours else -1


def _left_out(groups: Mapping[str, GroupOffsets], exported: Mapping[str, GroupOffsets]) -> list[str]:
    sentences = []
    rows = [row for group in exported.values() for topic in group.topics for row in topic]
    if count := sum(bool(row.metadata) for row in rows):
        sentences.append(f"the metadata of {amount(count, 'committed offset')}")
    if count := sum(row.leader_epoch >= 0 for row in rows):
        sentences.append(f"the leader epochs of {amount(count, 'committed offset')}")
    if count := offset_count(groups) - offset_count(exported):
        sentences.append(f"{amount(count, 'committed offset')} on other topics")
    return sentences
