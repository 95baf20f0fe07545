"""Shows an archive to people: segments, index states, and single records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from offsite.archives.archive import Damage, OnDamage, refuse_damage
from offsite.archives.files import Files
from offsite.archives.kafka_backup.partition_files import (
    NO_FILE,
    VERSION,
    PartitionFiles,
    SegmentFile,
    decode_partition_index,
    encode_partition_index,
    is_sound,
    list_partitions,
)
from offsite.archives.kafka_backup.segments.files import SegmentIndexFile
from offsite.archives.kafka_backup.segments.reader import (
    IndexContradiction,
    KafkaBackupSegmentReader,
    describe_damage,
    find_extent,
)
from offsite.archives.kafka_backup.segments.walk import SkippedBytes
from offsite.log.records.record import Record
from offsite.model.errors import ArchiveNotFound


class IndexState(StrEnum):
    """The state of an index compared with the indexed data; `reindex` repairs every state except `OK`."""

    OK = "ok"
    MISSING = "missing"
    TORN = "torn"
    """The index ends inside an entry."""
    LAGGING = "lagging"
    """The index lacks the last records or segments."""
    WRONG = "wrong"
    """The index has another version, contradicts the records, or names missing segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedSegment:
    """The facts about a segment. `first_offset` and `last_offset` are None without records."""

    file: str
    first_offset: int | None
    last_offset: int | None
    records: int
    size_bytes: int
    index: IndexState


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedPartition:
    topic: str
    partition: int
    segments: tuple[InspectedSegment, ...]
    index: IndexState
    has_groups: bool

    @property
    def records(self) -> int:
        return sum(segment.records for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    partitions: tuple[InspectedPartition, ...]
    damage: tuple[Damage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedRecord:
    """A record, with bytes `[position, position + size_bytes)` of the file."""

    position: int
    size_bytes: int
    record: Record


def inspect(files: Files, topic: str | None = None, *, deep: bool = False) -> Inspection:
    """Inspect an archive. Reads both ends of every segment, and whole segments whose index disagrees; `deep`: reads all
    records, and so finds problems in the middle. Raises `ArchiveNotFound`."""
    partitions = list_partitions(files, topic)
    if not partitions:
        raise ArchiveNotFound(f"{files.url} has no kafka-backup segments")
    damage: list[Damage] = []
    inspected = tuple(_partition(files, partition, damage.append, deep=deep) for partition in partitions)
    return Inspection(partitions=inspected, damage=tuple(damage))


def inspect_records(files: Files, file: str, on_damage: OnDamage = refuse_damage) -> Iterator[PlacedRecord]:
    """Yield the records of a records file (`InspectedSegment.file`), in order. Raises `ArchiveNotFound`."""
    segment = _segment_of(files, file)
    if not is_sound(files, segment.records_key, segment.records_bytes, on_damage):
        return
    for step in KafkaBackupSegmentReader(files, segment).steps():
        if isinstance(step, SkippedBytes | IndexContradiction):
            on_damage(describe_damage(files, segment, step))
        else:
            for record, (start, end) in zip(step.records, pairwise([step.start, *step.ends]), strict=True):
                yield PlacedRecord(position=start, size_bytes=end - start, record=record)


def _segment_of(files: Files, file: str) -> SegmentFile:
    for partition in list_partitions(files, file.partition("/")[0]):
        for segment in partition.segments:
            if segment.records_key == file:
                return segment
    raise ArchiveNotFound(f"{files.url} has no segment {file}", hint="give the name as inspect lists it")


def _partition(files: Files, partition: PartitionFiles, on_damage: OnDamage, *, deep: bool) -> InspectedPartition:
    return InspectedPartition(
        topic=partition.topic,
        partition=partition.partition,
        segments=tuple(_segment(files, segment, on_damage, deep=deep) for segment in partition.segments),
        index=_partition_index_state(files, partition),
        has_groups=partition.group_file is not None,
    )


def _segment(files: Files, segment: SegmentFile, on_damage: OnDamage, *, deep: bool) -> InspectedSegment:
    index = SegmentIndexFile.of(files, segment)
    content = _Content()
    if is_sound(files, segment.records_key, segment.records_bytes, on_damage):
        extent = None if deep else find_extent(files, segment)
        if extent is not None and extent.is_indexed:
            content = _Content(first=extent.first, last=extent.last, records=index.count)
        else:
            content.read(KafkaBackupSegmentReader(files, segment), on_damage)
    return InspectedSegment(
        file=segment.records_key,
        first_offset=content.first,
        last_offset=content.last,
        records=content.records,
        size_bytes=segment.records_bytes,
        index=_index_state(segment, index, content),
    )


@dataclass(slots=True, kw_only=True)
class _Content:
    """The contents of a segment; `is_contradicted`: the index contradicts the records."""

    first: int | None = None
    last: int | None = None
    records: int = 0
    is_contradicted: bool = False

    def read(self, reader: KafkaBackupSegmentReader, on_damage: OnDamage) -> None:
        """Count the contents of the whole segment."""
        for step in reader.steps():
            if isinstance(step, SkippedBytes | IndexContradiction):
                self.is_contradicted |= isinstance(step, IndexContradiction)
                on_damage(describe_damage(reader.files, reader.segment, step))
            else:
                self.first = step.records[0].offset if self.first is None else self.first
                self.last = step.records[-1].offset
                self.records += len(step.records)


def _index_state(segment: SegmentFile, index: SegmentIndexFile, content: _Content) -> IndexState:
    if segment.index_bytes == NO_FILE:
        return IndexState.MISSING
    if index.is_torn:
        return IndexState.TORN
    if content.is_contradicted or not index.is_known or index.count > content.records:
        return IndexState.WRONG
    return IndexState.LAGGING if index.count < content.records else IndexState.OK


def _partition_index_state(files: Files, partition: PartitionFiles) -> IndexState:
    data = (files.get(partition.partition_index) if partition.partition_index is not None else None) or b""
    if partition.partition_index is None:
        return IndexState.MISSING
    entries = decode_partition_index(data)
    if data and data[:1] != VERSION:
        return IndexState.WRONG
    if encode_partition_index([(entry.stem, entry.start) for entry in entries]) != data:
        return IndexState.TORN
    listed, present = {entry.stem for entry in entries}, {segment.stem for segment in partition.segments}
    if listed == present:
        return IndexState.OK
    return IndexState.LAGGING if listed < present else IndexState.WRONG
