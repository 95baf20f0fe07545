"""Writes archives of kafka-backup segments: byte for byte the files made by the tool from the same records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from offsite.archives.archive import ArchiveTopic, ArchiveWriter, RangeReceipt
from offsite.archives.files import AppendableFiles
from offsite.archives.kafka_backup import partition_index
from offsite.archives.kafka_backup.extent import find_extent
from offsite.archives.kafka_backup.groups import encode_group_file
from offsite.archives.kafka_backup.names import (
    consumer_offsets_key,
    index_key,
    partition_index_key,
    records_key,
    segment_stem,
)
from offsite.archives.kafka_backup.partition_files import PartitionFiles, list_partition, list_partitions
from offsite.archives.kafka_backup.range_writer import KafkaBackupRangeWriter
from offsite.archives.kafka_backup.segments import index as segment_index
from offsite.archives.kafka_backup.segments.reader import KafkaBackupSegmentReader
from offsite.archives.kafka_backup.segments.records_file import VERSION
from offsite.archives.kafka_backup.segments.walk import WholeRecords
from offsite.archives.kafka_backup.tail import mend_tail
from offsite.log.group_offsets import GroupOffsets
from offsite.log.range import LogRange, TopicPartition
from offsite.log.records.record import Record
from offsite.model.errors import BadOption

SEGMENT_BYTES = 1 << 30
"""The value in the tool's script, and the maximum with positions below 2^31 whatever the last record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaBackupWriter(ArchiveWriter):
    """Writes kafka-backup archives. `segment_bytes`: size of a records file beyond which the next record begins a new
    segment, like the tool's max.segment.size.bytes. Only one writer at a time: the format cannot keep a second writer
    out."""

    files: AppendableFiles
    segment_bytes: int = SEGMENT_BYTES
    lossy: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.segment_bytes <= SEGMENT_BYTES:
            raise BadOption(f"segments of {self.segment_bytes} bytes", hint=f"choose a size from 1 to {SEGMENT_BYTES}")

    @property
    def divides(self) -> bool:
        return False

    def ends(self) -> Mapping[TopicPartition, int]:
        """See `ArchiveWriter`; reads the tails of the last segment's files, more only after a crash."""
        tails = {files.topic_partition: mend_tail(self.files, files) for files in list_partitions(self.files)}
        return {partition: tail.end for partition, tail in tails.items() if tail.end > 0}

    def last_record(self, of: TopicPartition) -> Record | None:
        for segment in reversed(list_partition(self.files, of.topic, of.partition).segments):
            if (extent := find_extent(self.files, segment)) is not None:
                steps = KafkaBackupSegmentReader(self.files, segment, extent.last).steps()
                whole = [step for step in steps if isinstance(step, WholeRecords) and step.records]
                return whole[-1].records[-1] if whole else None
        return None

    def open(self, log_range: LogRange) -> KafkaBackupRangeWriter:
        """Repair the partition's end, like `ends`: a retried task continues behind the flushed records."""
        partition = list_partition(self.files, log_range.topic, log_range.partition)
        tail = mend_tail(self.files, partition)
        return KafkaBackupRangeWriter(
            files=self.files, log_range=log_range, segment_bytes=self.segment_bytes, tail=tail, lossy=self.lossy
        )

    def finish(
        self,
        written: Sequence[RangeReceipt],  # noqa: ARG002 - all indexes are written already
        topics: Sequence[ArchiveTopic],
        groups: Mapping[str, GroupOffsets],
    ) -> tuple[str, ...]:
        """Create an empty segment for every partition without records, like the tool, so the partition is not
        forgotten. Committed offsets are replaced; without any group, existing offsets stay."""
        for topic in topics:
            present = {files.partition: files for files in list_partitions(self.files, topic.topic)}
            for partition in range(topic.partitions):
                existing = present.get(partition)
                if existing is None or not existing.segments:
                    self._make_empty(topic.topic, partition)
            if groups:
                self._write_groups(topic, present, groups)
        return tuple(_unheld(topics, groups))

    def _make_empty(self, topic: str, partition: int) -> None:
        stem = segment_stem(partition, 0)
        self.files.put(records_key(topic, stem), VERSION)
        self.files.put(index_key(topic, stem), segment_index.VERSION)
        listed = partition_index.encode_partition_index([(stem, 0)])
        self.files.put(partition_index_key(topic, partition), listed)

    def _write_groups(
        self, topic: ArchiveTopic, present: Mapping[int, PartitionFiles], groups: Mapping[str, GroupOffsets]
    ) -> None:
        committed: dict[int, dict[str, int]] = {}
        for group, partition, offset in _committed(topic.topic, groups):
            committed.setdefault(partition, {})[group] = offset
        for partition in range(topic.partitions):
            key = consumer_offsets_key(topic.topic, partition)
            if partition in committed or (partition in present and present[partition].group_file is not None):
                new = encode_group_file(committed.get(partition, {}))
                if self.files.get(key) != new:
                    self.files.put(key, new)


def _committed(topic: str, groups: Mapping[str, GroupOffsets]) -> Iterator[tuple[str, int, int]]:
    """Yield group, partition and offset of every commit on the topic."""
    for name, group in groups.items():
        for offsets in group.topics:
            if offsets.topic == topic:
                yield from ((name, row.partition, row.offset) for row in offsets)


def _unheld(topics: Sequence[ArchiveTopic], groups: Mapping[str, GroupOffsets]) -> Iterator[str]:
    if any(topic.configs or topic.replication_factor > 0 for topic in topics):
        yield "kafka-backup cannot store the settings and the replication factor of topics"
    rows = [row for group in groups.values() for offsets in group.topics for row in offsets]
    if any(row.metadata or row.leader_epoch >= 0 for row in rows):
        yield "kafka-backup cannot store the metadata and leader epochs of committed offsets"
