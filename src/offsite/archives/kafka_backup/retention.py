"""Retention of kafka-backup segments: out of the partition index first, then the segment's own index, then the records.

Names define the contents of the format, so a segment is gone with the records file, and no mark for waiting segments
exists. The index of a segment is deleted before the records: records are readable without the index. Deletion starts
with the oldest, so no gap appears between two segments. No time is stored with a segment: all records are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from offsite.archives.archive import refuse_damage
from offsite.archives.files import Files
from offsite.archives.kafka_backup.partition_files import (
    PartitionFiles,
    SegmentFile,
    decode_partition_index,
    encode_partition_index,
    find_sound_segments,
    list_partition,
    list_partitions,
    partition_index_key,
)
from offsite.archives.kafka_backup.segments.files import FIRST_POSITION
from offsite.archives.kafka_backup.segments.reader import KafkaBackupSegmentReader
from offsite.archives.kafka_backup.segments.walk import WholeRecords
from offsite.archives.retention import (
    ArchiveFile,
    ExpiredObject,
    ExpiringFile,
    LastMessage,
    are_first,
    group_by_partition,
)
from offsite.model.errors import ArchiveBusy, ArchiveNotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaBackupRetention:
    """The `RetentionArchive` of the format."""

    files: Files

    def partitions(self) -> Sequence[Sequence[ArchiveFile]]:
        partitions = list_partitions(self.files)
        if not partitions:
            raise ArchiveNotFound(f"{self.files.url} has no kafka-backup segments")
        for partition in partitions:
            find_sound_segments(self.files, partition, refuse_damage)
        return tuple(files for partition in partitions if (files := tuple(_files(partition))))

    def settings(self) -> None:
        """Return None: the format stores no settings."""

    def last_message(self, file: ArchiveFile) -> LastMessage:
        segments = list_partition(self.files, file.partition.topic, file.partition.partition).segments
        segment = next((candidate for candidate in segments if candidate.records_key == file.name), None)
        return LastMessage(at_ms=None, unknown="no longer exists") if segment is None else self._read(segment)

    def forget(self, going: Sequence[ExpiringFile], *, now_ms: int) -> Sequence[ExpiredObject]:
        gone: list[ExpiredObject] = []
        for files in group_by_partition([expiring.file for expiring in going]):
            of = files[0].partition
            partition = list_partition(self.files, of.topic, of.partition)
            if not are_first(
                [expiring for expiring in going if expiring.file.partition == of], (tuple(_files(partition)),)
            ):
                raise ArchiveBusy(f"{of} of {self.files.url} has changed since the plan", hint="plan again")
            self._unlist(partition, {file.start for file in files})
            gone += (
                ExpiredObject(key=key, partition=of, size_bytes=size_bytes, since_ms=now_ms)
                for file in files
                for key, size_bytes in zip(file.keys, (0, file.size_bytes), strict=True)
            )
        return gone

    def expired(self) -> Sequence[ExpiredObject]:
        return ()

    def settle(self, gone: Collection[str], *, before_ms: int) -> None:
        """Do nothing: the format records no expired objects."""

    def _unlist(self, partition: PartitionFiles, starts: Collection[int]) -> None:
        key = partition.partition_index or partition_index_key(partition.topic, partition.partition)
        data = self.files.get(key) or b""
        entries = [(entry.stem, entry.start) for entry in decode_partition_index(data)]
        last = max(starts)
        new = encode_partition_index([entry for entry in entries if entry[1] > last])
        if data and new != data and not self.files.replace(key, data, new):
            raise ArchiveBusy(f"{key} was written by another process", hint="run the same command again")

    def _read(self, segment: SegmentFile) -> LastMessage:
        newest_ms, end = 0, segment.start
        if segment.records_bytes > FIRST_POSITION:
            for step in KafkaBackupSegmentReader(self.files, segment).steps():
                if not isinstance(step, WholeRecords):
                    return LastMessage(
                        at_ms=None, unknown="its last message is unknown: the file cannot be read completely"
                    )
                if any(record.timestamp_ms < 0 for record in step.records):
                    return LastMessage(at_ms=None, unknown="it has records without a time")
                newest_ms = max(newest_ms, *(record.timestamp_ms for record in step.records))
                end = step.records[-1].offset + 1
        return LastMessage(at_ms=newest_ms, end=end)


def _files(partition: PartitionFiles) -> Iterator[ArchiveFile]:
    """Yield files up to the last segment with records: an export continues behind."""
    segments = list(partition.segments)
    while len(segments) > 1 and segments[-1].records_bytes <= FIRST_POSITION:
        segments.pop()
    for segment, behind in zip(segments, [*segments[1:], None], strict=True):
        yield ArchiveFile(
            name=segment.records_key,
            partition=partition.topic_partition,
            start=segment.start,
            end=segment.start if behind is None else behind.start,
            size_bytes=max(segment.records_bytes, 0) + max(segment.index_bytes, 0),
            keys=(segment.index_key, segment.records_key),
        )
