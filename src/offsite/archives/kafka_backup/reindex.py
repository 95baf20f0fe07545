"""Rebuilds the indexes from the records: after a crash, after damage, after the deletion of old segments.

Changes index files, and the torn end of a partition's last records file. Complete records are never touched. Bytes
between records that form no record stay, skipped by the new index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from offsite.archives.archive import Damage
from offsite.archives.files import AppendableFiles
from offsite.archives.kafka_backup.names import partition_index_key
from offsite.archives.kafka_backup.partition_files import NO_FILE, PartitionFiles, SegmentFile, list_partitions
from offsite.archives.kafka_backup.partition_index import encode_partition_index
from offsite.archives.kafka_backup.segments.index import ENTRY_BYTES, VERSION, encode_entries
from offsite.archives.kafka_backup.segments.reader import describe_damage
from offsite.archives.kafka_backup.segments.record_codec import offsets_of
from offsite.archives.kafka_backup.segments.records_file import FIRST_POSITION, RecordsFile
from offsite.archives.kafka_backup.segments.walk import SkippedBytes, Walk, WholeRecords
from offsite.archives.kafka_backup.soundness import is_sound
from offsite.model.errors import ArchiveNotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexedSegment:
    """The result for a segment. `is_rewritten`: the old index contradicted the records. `cut_bytes`: size of the
    removed torn end."""

    file: str
    records: int
    is_rewritten: bool
    cut_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexResult:
    """The result for an archive. `partition_indexes` were rewritten; `removed` index files had no records. `damage`:
    bytes without a record."""

    segments: tuple[ReindexedSegment, ...]
    partition_indexes: tuple[str, ...]
    removed: tuple[str, ...]
    damage: tuple[Damage, ...]

    @property
    def records(self) -> int:
        return sum(segment.records for segment in self.segments)


def reindex(files: AppendableFiles, topic: str | None = None) -> ReindexResult:
    """Rebuild the indexes of the archive, or of a topic, from every record. A crash leaves lagging indexes, completed
    by the next run. Raises `ArchiveNotFound`."""
    partitions = list_partitions(files, topic)
    if not partitions:
        description = "kafka-backup segments" if topic is None else f"kafka-backup segments of the topic {topic}"
        raise ArchiveNotFound(
            f"{files.url} has no {description}", hint="give the folder that contains the topic folders"
        )
    run = _Run(files)
    for partition in partitions:
        run.reindex(partition)
    return ReindexResult(
        segments=tuple(run.segments),
        partition_indexes=tuple(run.partition_indexes),
        removed=tuple(run.removed),
        damage=tuple(run.damage),
    )


@dataclass(slots=True)
class _Run:
    files: AppendableFiles
    segments: list[ReindexedSegment] = field(default_factory=list)
    partition_indexes: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)

    def reindex(self, partition: PartitionFiles) -> None:
        for orphan in partition.orphan_indexes:
            self.files.delete(orphan.index_key)
            self.removed.append(orphan.index_key)
        for segment in partition.segments:
            if is_sound(self.files, segment.records_key, segment.records_bytes, self.damage.append):
                self._segment(segment, is_last=segment is partition.segments[-1])
        self._partition_index(partition)

    def _segment(self, segment: SegmentFile, *, is_last: bool) -> None:
        index = _IndexRewriter(self.files, segment)
        cut_bytes = 0
        for step in _steps(self.files, segment):
            if not isinstance(step, SkippedBytes):
                index.add(encode_entries(offsets_of(step.records), step.start, step.ends))
                continue
            self.damage.append(describe_damage(self.files, segment, step))
            if is_last and step.end == segment.records_bytes:
                cut_bytes = step.end - step.start
                self.files.truncate(segment.records_key, step.start)
        index.end()
        reindexed = ReindexedSegment(
            file=segment.records_key, records=index.records, is_rewritten=index.is_rewritten, cut_bytes=cut_bytes
        )
        self.segments.append(reindexed)

    def _partition_index(self, partition: PartitionFiles) -> None:
        key = partition.partition_index or partition_index_key(partition.topic, partition.partition)
        new = encode_partition_index([(segment.stem, segment.start) for segment in partition.segments])
        if partition.segments and self.files.get(key) != new:
            self.files.put(key, new)
            self.partition_indexes.append(key)
        elif not partition.segments and partition.partition_index is not None:
            self.files.delete(key)
            self.removed.append(key)


def _steps(files: AppendableFiles, segment: SegmentFile) -> Iterator[WholeRecords | SkippedBytes]:
    """Walk without the old index, which is in doubt."""
    file = RecordsFile(files, segment.records_key, segment.records_bytes)
    return Walk(file, FIRST_POSITION, segment.records_bytes).steps()


@dataclass(slots=True)
class _IndexRewriter:
    """Keeps the equal beginning of the old file, and rewrites the rest."""

    files: AppendableFiles
    segment: SegmentFile
    is_rewritten: bool = False
    records: int = 0
    _size_bytes: int = 0

    def __post_init__(self) -> None:
        self._write(VERSION)

    def add(self, entries: bytes) -> None:
        self.records += len(entries) // ENTRY_BYTES
        self._write(entries)

    def end(self) -> None:
        """Cut the old file behind the last record's entry."""
        if not self.is_rewritten and self._size_bytes < self.segment.index_bytes:
            self._cut()

    def _write(self, data: bytes) -> None:
        if not self.is_rewritten and self._old(len(data)) != data:
            self._cut()
        if self.is_rewritten:
            self.files.append(self.segment.index_key, data)
        self._size_bytes += len(data)

    def _old(self, length: int) -> bytes:
        return self.files.get_range(self.segment.index_key, self._size_bytes, length) or b""

    def _cut(self) -> None:
        self.is_rewritten = True
        if self.segment.index_bytes != NO_FILE:
            self.files.truncate(self.segment.index_key, self._size_bytes)
