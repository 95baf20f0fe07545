"""Writes archives of kafka-backup segments: byte for byte the files made by the tool from the same records.

A range is written behind the end of its partition, into segments of limited size. The tool begins a new segment when
the current segment exceeds the limit *before* a record is added; the name of the first segment has offset 0, every
further name the offset of the segment's first record. Records are gathered in memory; records are written first, then
index entries. A crash between any two bytes leaves complete records, at most a torn record, and a lagging index:
`repair` mends both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import TracebackType
from typing import Self

from offsite.archives.archive import ArchiveTopic, ArchiveWriter, FileReceipt, RangeReceipt
from offsite.archives.files import AppendableFiles
from offsite.archives.kafka_backup import partition_files
from offsite.archives.kafka_backup.groups import encode_group_file
from offsite.archives.kafka_backup.partition_files import (
    PartitionFiles,
    consumer_offsets_key,
    index_key,
    list_partition,
    list_partitions,
    partition_index_key,
    records_key,
    segment_stem,
)
from offsite.archives.kafka_backup.repair import Tail, mend_tail
from offsite.archives.kafka_backup.segments import files as segment_files
from offsite.archives.kafka_backup.segments.files import VERSION
from offsite.archives.kafka_backup.segments.reader import KafkaBackupSegmentReader, find_extent
from offsite.archives.kafka_backup.segments.record import encode_record, offsets_of
from offsite.archives.kafka_backup.segments.walk import WholeRecords
from offsite.log.group_offsets import GroupOffsets
from offsite.log.range import LogRange, TopicPartition
from offsite.log.records.record import Record
from offsite.log.records.record_columns import RecordColumns
from offsite.model.errors import BadOption, NotRepresentable, check

FLUSH_BYTES = 4 << 20
"""Bytes gathered before a write: large enough for a cheap fsync of both files."""
_TIME_LOST = "the time of a record whose timestamp type is neither CreateTime nor LogAppendTime"
SEGMENT_BYTES = 1 << 30
"""The value in the tool's script, and the maximum with positions below 2^31 whatever the last record."""


class KafkaBackupSegmentWriter:
    """Appends to the files of `stem`, listed by the partition index at `start`. `records_bytes`: size of the records
    file, 0 for a missing file."""

    def __init__(self, *, files: AppendableFiles, topic: str, stem: str, start: int, records_bytes: int) -> None:
        self._files = files
        self._records_key, self._index_key = records_key(topic, stem), index_key(topic, stem)
        self.stem, self.start = stem, start
        self._is_new = records_bytes == 0
        self.size_bytes = max(records_bytes, len(VERSION))
        self._start_bytes = self.size_bytes
        self._parts: list[bytes] = []
        self._offsets: list[int] = []
        self._ends: list[int] = []
        self._pending_start = self.size_bytes
        self._spans: list[tuple[int, int, int, int, int]] = []

    @property
    def is_due(self) -> bool:
        return self.size_bytes - self._pending_start >= FLUSH_BYTES

    def add(self, records: Sequence[Record], parts: Sequence[bytes]) -> None:
        """Gather at least a record, with the encoded bytes."""
        self._parts += parts
        self._offsets += offsets_of(records)
        ends = accumulate(map(len, parts), initial=self.size_bytes)
        next(ends)
        self._ends += ends
        self.size_bytes = self._ends[-1]
        times = [record.timestamp_ms for record in records]
        self._spans.append((records[0].offset, records[-1].offset, len(records), min(times), max(times)))

    def flush(self) -> bool:
        """Write the gathered records durably. Returns whether the call created the segment's files."""
        if not self._parts:
            return False
        was_new, self._is_new = self._is_new, False
        entries = segment_files.encode_entries(self._offsets, self._pending_start, self._ends)
        self._files.append(self._records_key, b"".join([VERSION, *self._parts] if was_new else self._parts))
        if was_new:
            self._files.put(self._index_key, segment_files.VERSION + entries)  # an index without records may lie there
        else:
            self._files.append(self._index_key, entries)
        self._parts, self._offsets, self._ends = [], [], []
        self._pending_start = self.size_bytes
        return was_new

    def receipt(self, log_range: LogRange) -> FileReceipt | None:
        """Return the receipt of the appended records; None without records."""
        if not self._spans:
            return None
        firsts, lasts, counts, lowest_ms, highest_ms = zip(*self._spans, strict=True)
        size_bytes = self.size_bytes - self._start_bytes
        return FileReceipt(
            name=self._records_key,
            range=LogRange(topic=log_range.topic, partition=log_range.partition, start=firsts[0], end=lasts[-1] + 1),
            first_offset=firsts[0],
            last_offset=lasts[-1],
            records=sum(counts),
            size_bytes=size_bytes,
            plain_bytes=size_bytes,
            timestamp_min_ms=min(lowest_ms),
            timestamp_max_ms=max(highest_ms),
        )


class KafkaBackupRangeWriter:
    """Skips records already in the archive. Flushed records count at once: an error leaves a shorter archive, never a
    wrong archive, and the next run continues behind the end."""

    def __init__(
        self, *, files: AppendableFiles, log_range: LogRange, segment_bytes: int, tail: Tail, lossy: bool = False
    ) -> None:
        self._files = files
        self._range = log_range
        self._segment_bytes = segment_bytes
        self._next = tail.end
        self._lossy, self._times_lost = lossy, 0
        self._has_partition_index = not tail.is_new
        self._segments: list[KafkaBackupSegmentWriter] = []
        self._current = self._open_segment(tail.stem, 0, tail.records_bytes)

    def append(self, records: Sequence[Record]) -> None:
        """See `RangeWriter`."""
        records = self._unwritten(records)
        if not records:
            return
        parts = self._encoded(records)
        while records:
            room = self._room(parts)
            if room == 0:
                self._rotate(records[0].offset)
                continue
            self._current.add(records[:room], parts[:room])
            records, parts = records[room:], parts[room:]
            if self._current.is_due:
                self._flush()

    def append_columns(self, columns: RecordColumns) -> None:
        self.append(columns.records())

    def close(self) -> RangeReceipt:
        """Flush. Everything is durable on return."""
        self._flush()
        receipts = [receipt for segment in self._segments if (receipt := segment.receipt(self._range)) is not None]
        return RangeReceipt(
            range=self._range,
            files=tuple(receipts),
            records=sum(file.records for file in receipts),
            losses=((_TIME_LOST, self._times_lost),) if self._times_lost else (),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to undo: unflushed records are dropped."""

    def _unwritten(self, records: Sequence[Record]) -> Sequence[Record]:
        if not records or records[-1].offset < self._next:
            return ()
        if records[0].offset < self._next:
            records = [record for record in records if record.offset >= self._next]
        check(records[-1].offset < self._range.end, f"records beyond {self._range}")
        self._next = records[-1].offset + 1
        return records

    def _encoded(self, records: Sequence[Record]) -> list[bytes]:
        try:
            return [encode_record(record) for record in records]
        except NotRepresentable as error:
            if not self._lossy:
                raise NotRepresentable(f"{self._range.topic_partition} {error.message}", hint=error.hint) from error
        return [self._encoded_without_time(record) for record in records]

    def _encoded_without_time(self, record: Record) -> bytes:
        try:
            return encode_record(record)
        except NotRepresentable:
            self._times_lost += 1
            return encode_record(record._replace(timestamp_ms=-1))

    def _room(self, parts: Sequence[bytes]) -> int:
        """Return how many of the next records fit into the current segment."""
        sizes = list(accumulate(map(len, parts), initial=self._current.size_bytes))
        return min(bisect_right(sizes, self._segment_bytes), len(parts))

    def _rotate(self, first_offset: int) -> None:
        self._flush()
        self._current = self._open_segment(segment_stem(self._range.partition, first_offset), first_offset, 0)

    def _open_segment(self, stem: str, start: int, records_bytes: int) -> KafkaBackupSegmentWriter:
        segment = KafkaBackupSegmentWriter(
            files=self._files, topic=self._range.topic, stem=stem, start=start, records_bytes=records_bytes
        )
        self._segments.append(segment)
        return segment

    def _flush(self) -> None:
        if self._current.flush():
            entry = partition_files.encode_entry(self._current.stem, self._current.start)
            version = b"" if self._has_partition_index else partition_files.VERSION
            self._files.append(partition_index_key(self._range.topic, self._range.partition), version + entry)
            self._has_partition_index = True


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
        self.files.put(index_key(topic, stem), segment_files.VERSION)
        listed = partition_files.encode_partition_index([(stem, 0)])
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
