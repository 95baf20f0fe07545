"""Repairs the end of a partition after a crash, so that records can be appended.

Only the last segment and the partition index are touched. Possible leftovers of a crash, and their repair: a torn
record is cut; complete records without entries are entered; torn entries, or entries of missing records, are cut and
rebuilt; a segment missing from the partition index is listed. Complete records are never cut off, whatever precedes the
records.
"""

from __future__ import annotations

from dataclasses import dataclass

from offsite.archives.files import AppendableFiles
from offsite.archives.kafka_backup import partition_index
from offsite.archives.kafka_backup.extent import find_extent
from offsite.archives.kafka_backup.names import partition_index_key, segment_stem
from offsite.archives.kafka_backup.partition_files import NO_FILE, PartitionFiles, SegmentFile
from offsite.archives.kafka_backup.segments import index as segment_index
from offsite.archives.kafka_backup.segments.index import SegmentIndexFile
from offsite.archives.kafka_backup.segments.record_codec import offsets_of
from offsite.archives.kafka_backup.segments.records_file import FIRST_POSITION, VERSION, RecordsFile
from offsite.archives.kafka_backup.segments.walk import SkippedBytes, Walk
from offsite.model.errors import DamagedArchive

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
    listed = {entry.stem: entry.start for entry in partition_index.decode_partition_index(old)}
    listed.update((segment.stem, segment.start) for segment in partition.segments)
    new = partition_index.encode_partition_index(sorted(listed.items(), key=lambda entry: entry[1]))
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
            self.files.append(segment.index_key, segment_index.VERSION)
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
            self.files.truncate(self.segment.index_key, segment_index.entry_position(number))
        walk = Walk(file, position, file.size_bytes, last)
        size_bytes = position
        for step in walk.steps():
            if not isinstance(step, SkippedBytes):
                entries = segment_index.encode_entries(offsets_of(step.records), step.start, step.ends)
                self.files.append(self.segment.index_key, entries)
                size_bytes = step.ends[-1]
            elif step.end < file.size_bytes and not file.is_repeated(step.start, step.end):
                raise DamagedArchive(f"{file.key} at byte {step.start}: {step.problem}", hint=_REINDEX)
        if size_bytes < file.size_bytes:
            self.files.truncate(file.key, size_bytes)
        return size_bytes, walk.last + 1 if size_bytes > FIRST_POSITION else 0
