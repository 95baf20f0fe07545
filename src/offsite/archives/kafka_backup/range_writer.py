"""Writes a range behind the end of its partition, into segments of limited size.

The tool begins a new segment when the current segment exceeds the limit *before* a record is added; the name of the
first segment has offset 0, every further name the offset of the segment's first record. Offsite follows the same rule:
the same records produce the same files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from types import TracebackType
from typing import Self

from offsite.archives.archive import RangeReceipt
from offsite.archives.files import AppendableFiles
from offsite.archives.kafka_backup import partition_index
from offsite.archives.kafka_backup.names import partition_index_key, segment_stem
from offsite.archives.kafka_backup.segments.record_codec import encode_record
from offsite.archives.kafka_backup.segments.writer import KafkaBackupSegmentWriter
from offsite.archives.kafka_backup.tail import Tail
from offsite.log.range import LogRange
from offsite.log.records.record import Record
from offsite.log.records.record_columns import RecordColumns
from offsite.model.errors import NotRepresentable, check

_TIME_LOST = "the time of a record whose timestamp type is neither CreateTime nor LogAppendTime"


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
            entry = partition_index.encode_entry(self._current.stem, self._current.start)
            version = b"" if self._has_partition_index else partition_index.VERSION
            self._files.append(partition_index_key(self._range.topic, self._range.partition), version + entry)
            self._has_partition_index = True
