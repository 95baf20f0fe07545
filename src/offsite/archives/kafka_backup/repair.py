"""Repairs files after a crash or damage: the end of a partition, so that records can be appended (`mend_tail`), and all
indexes from the records, also after the deletion of old segments (`reindex`). Complete records are never touched.

Possible leftovers of a crash, and their repair: a torn record is cut; complete records without entries are entered;
torn entries, or entries of missing records, are cut and rebuilt; a segment missing from the partition index is listed.
Complete records are never cut off, whatever precedes the records. Bytes between records that form no record stay,
skipped by the new index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from offsite.archives.archive import Damage
from offsite.archives.files import AppendableFiles
from offsite.archives.kafka_backup import partition_files
from offsite.archives.kafka_backup.partition_files import (
    NO_FILE,
    PartitionFiles,
    SegmentFile,
    encode_partition_index,
    is_sound,
    list_partitions,
    partition_index_key,
    segment_stem,
)
from offsite.archives.kafka_backup.segments import files as segment_files
from offsite.archives.kafka_backup.segments.files import (
    ENTRY_BYTES,
    FIRST_POSITION,
    VERSION,
    RecordsFile,
    SegmentIndexFile,
    encode_entries,
)
from offsite.archives.kafka_backup.segments.reader import describe_damage, find_extent
from offsite.archives.kafka_backup.segments.record import offsets_of
from offsite.archives.kafka_backup.segments.walk import SkippedBytes, Walk, WholeRecords
from offsite.model.errors import ArchiveNotFound, DamagedArchive

_REINDEX = "offsite archive reindex shows the undamaged part"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The append position of a partition. `stem`: segment to append to, new when `records_bytes` is 0. `end`: the
    offset after the last record, 0 without records."""

    stem: str
    records_bytes: int
    end: int

    @property
    def is_new(self) -> bool:
        return self.records_bytes == 0


def mend_tail(files: AppendableFiles, partition: PartitionFiles) -> Tail:
    """Repair and return the tail. A partition whose segments were all deleted starts again.

    Raises `DamagedArchive` for states impossible after a crash: a file of another version, records behind damage.
    """
    if not partition.segments:
        if partition.partition_index is not None:
            files.delete(partition.partition_index)
        return Tail(stem=segment_stem(partition.partition, 0), records_bytes=0, end=0)
    last = partition.segments[-1]
    for key, size_bytes in ((last.records_key, last.records_bytes), (last.index_key, last.index_bytes)):
        _check_version(files, key, size_bytes)
    records_bytes, end = _SegmentTail(files, last).mend()
    mend_partition_index(files, partition)
    earlier = reversed(partition.segments[:-1])
    while end == 0 and (segment := next(earlier, None)) is not None:
        extent = find_extent(files, segment)
        end = 0 if extent is None else extent.last + 1
    return Tail(stem=last.stem, records_bytes=records_bytes, end=end)


def mend_partition_index(files: AppendableFiles, partition: PartitionFiles) -> bool:
    """List every existing segment; entries of missing segments are kept. Returns whether the file was written."""
    key = partition.partition_index
    old = (files.get(key) if key is not None else None) or b""
    if key is not None:
        _check_version(files, key, len(old))
    listed = {entry.stem: entry.start for entry in partition_files.decode_partition_index(old)}
    listed.update((segment.stem, segment.start) for segment in partition.segments)
    new = partition_files.encode_partition_index(sorted(listed.items(), key=lambda entry: entry[1]))
    if not listed or new == old:
        return False
    files.put(key or partition_index_key(partition.topic, partition.partition), new)
    return True


def _check_version(files: AppendableFiles, key: str, size_bytes: int) -> None:
    version = files.get_range(key, 0, 1) if size_bytes > 0 else b""
    if version and version != VERSION:
        raise DamagedArchive(
            f"{key} at byte 0: its version is {version[0]}, but only version 1 is supported", hint=_REINDEX
        )


@dataclass(slots=True)
class _SegmentTail:
    files: AppendableFiles
    segment: SegmentFile

    def mend(self) -> tuple[int, int]:
        """Return the size of the records file, and the offset after the last record, 0 without records."""
        segment = self.segment
        if segment.records_bytes == 0:
            self.files.append(segment.records_key, VERSION)
        if segment.index_bytes <= 0:
            self.files.append(segment.index_key, segment_files.VERSION)
        index = SegmentIndexFile.of(self.files, segment)
        file = RecordsFile(self.files, segment.records_key, max(segment.records_bytes, FIRST_POSITION))
        believed = self._believed(index, file)
        if believed:
            entry = index.entries(believed - 1, 1)
            if believed == index.count and not index.is_torn and entry.end(0) == file.size_bytes:
                return file.size_bytes, entry.offsets[0] + 1
            return self._index_from(file, believed - 1, entry.positions[0], entry.offsets[0] - 1)
        return self._index_from(file, 0, FIRST_POSITION, -1)

    def _believed(self, index: SegmentIndexFile, file: RecordsFile) -> int:
        """Return the number of entries up to the last entry with a matching record."""
        number = index.count
        if number and index.entries(number - 1, 1).end(0) > file.size_bytes:
            number = index.first_beyond(file.size_bytes)
        while number and not file.describes(index.entries(number - 1, 1)):
            number -= 1
        return number

    def _index_from(self, file: RecordsFile, number: int, position: int, last: int) -> tuple[int, int]:
        """Enter the records from `position` as entries `number` and following, and cut the rest."""
        if self.segment.index_bytes != NO_FILE:
            self.files.truncate(self.segment.index_key, segment_files.entry_position(number))
        walk = Walk(file, position, file.size_bytes, last)
        size_bytes = position
        for step in walk.steps():
            if not isinstance(step, SkippedBytes):
                entries = segment_files.encode_entries(offsets_of(step.records), step.start, step.ends)
                self.files.append(self.segment.index_key, entries)
                size_bytes = step.ends[-1]
            elif step.end < file.size_bytes and not file.is_repeated(step.start, step.end):
                raise DamagedArchive(f"{file.key} at byte {step.start}: {step.problem}", hint=_REINDEX)
        if size_bytes < file.size_bytes:
            self.files.truncate(file.key, size_bytes)
        return size_bytes, walk.last + 1 if size_bytes > FIRST_POSITION else 0


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
