"""Grows a segment: records are gathered in memory; records are written first, then index entries.

A crash between any two bytes leaves complete records, at most a torn record, and a lagging index: `tail` repairs both.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from offsite.archives.archive import FileReceipt
from offsite.archives.files import AppendableFiles
from offsite.archives.kafka_backup.names import index_key, records_key
from offsite.archives.kafka_backup.segments import index as segment_index
from offsite.archives.kafka_backup.segments.record_codec import offsets_of
from offsite.archives.kafka_backup.segments.records_file import VERSION
from offsite.log.range import LogRange
from offsite.log.records.record import Record

FLUSH_BYTES = 4 << 20
"""Bytes gathered before a write: large enough for a cheap fsync of both files."""


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
        entries = segment_index.encode_entries(self._offsets, self._pending_start, self._ends)
        self._files.append(self._records_key, b"".join([VERSION, *self._parts] if was_new else self._parts))
        if was_new:
            self._files.put(self._index_key, segment_index.VERSION + entries)  # an index without records may lie there
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
