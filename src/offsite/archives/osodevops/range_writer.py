"""Writes the records of a range as segments: a new segment begins before the size limit is exceeded.

A segment's name and bytes depend on the range's records only, so writing the range again replaces the same files. A
segment counts after the manifest lists the segment. Properties of records beyond the format are refused by name, or
reduced and counted when losses are allowed.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from offsite.archives.archive import FileReceipt, RangeReceipt
from offsite.archives.files import Files
from offsite.archives.osodevops.segment import (
    FOOTER,
    FOOTER_MAGIC,
    HEADER_BYTES,
    MAGIC,
    MAX_HEADERS,
    MAX_NAME_BYTES,
    VERSION,
    ZSTD,
    SegmentHeader,
    encode_record,
    make_added_headers,
    strip_added_headers,
)
from offsite.log.range import LogRange, TopicPartition
from offsite.log.records.record import LOG_APPEND_TIME, Record, RecordHeaders
from offsite.log.records.record_columns import RecordColumns
from offsite.model.errors import NotRepresentable

if TYPE_CHECKING:
    from zstandard import ZstdCompressionObj


APPEND_TIME = "timestamp type LogAppendTime"
NAME_NOT_UTF8 = "a header name that is not UTF-8"
NAME_TOO_LONG = f"a header name of more than {MAX_NAME_BYTES} bytes"
TOO_MANY_HEADERS = f"more than {MAX_HEADERS} headers"

Encoded = tuple[tuple[bytes, bytes | None], ...]
START_DIGITS = 20
ZSTD_LEVEL = 3
"""The tool's default."""
COMPRESS_BYTES = 256 << 10
"""Bytes handed to the compressor at a time: a call per record would cost more than the compression."""


class RecordEncoder:
    """Encodes the records of a partition. `losses`: number of affected records per lost property."""

    def __init__(self, of: TopicPartition, *, is_lossy: bool, offset_headers: bool, cluster_id: str) -> None:
        self.losses: Counter[str] = Counter()
        self._of = of
        self._is_lossy = is_lossy
        self._offset_headers = offset_headers
        self._cluster_id = cluster_id

    def encode(self, record: Record) -> bytes:
        """Encode a record. Raises `NotRepresentable` unless losses are allowed."""
        if record.timestamp_type == LOG_APPEND_TIME:
            self._lose(record, APPEND_TIME)
        if not record.headers and not self._offset_headers:
            return encode_record(record, ())
        return encode_record(record, self._headers(record))

    def _headers(self, record: Record) -> Encoded:
        """Encode headers. A record that already ends with headers like the tool's gets the headers once more, because
        readers remove the last."""
        is_ambiguous = strip_added_headers(record) is not record
        more = make_added_headers(record, self._cluster_id) if self._offset_headers or is_ambiguous else ()
        encoded = tuple(self._encoded(record, record.headers))
        room = MAX_HEADERS - len(more)
        if len(encoded) > room:
            self._lose(record, TOO_MANY_HEADERS)
        return (*encoded[:room], *((name.encode(), value) for name, value in more))

    def _encoded(self, record: Record, headers: RecordHeaders) -> list[tuple[bytes, bytes | None]]:
        representable, lost = [], set()
        for name, value in headers:
            try:
                encoded = name.encode()
            except UnicodeEncodeError:
                lost.add(NAME_NOT_UTF8)
                encoded = name.encode("utf-8", "replace")
            if len(encoded) > MAX_NAME_BYTES:
                lost.add(NAME_TOO_LONG)
            else:
                representable.append((encoded, value))
        for loss in sorted(lost):
            self._lose(record, loss)
        return representable

    def _lose(self, record: Record, loss: str) -> None:
        if not self._is_lossy:
            raise NotRepresentable(
                f"{self._of} offset {record.offset}: an osodevops backup cannot store {loss}",
                hint="drop such data with --lossy, or choose a format that can store it",
            )
        self.losses[loss] += 1


class SegmentRangeWriter:
    def __init__(
        self, *, files: Files, log_range: LogRange, prefix: str, segment_bytes: int, encoder: RecordEncoder
    ) -> None:
        self._files = files
        self._range = log_range
        self._prefix = f"{prefix}topics/{log_range.topic}/partition={log_range.partition}"
        self._segment_bytes = segment_bytes
        self._encoder = encoder
        self._open: _OpenSegment | None = None
        self._done: list[FileReceipt] = []

    def append(self, records: Sequence[Record]) -> None:
        encode = self._encoder.encode
        for record in records:
            encoded = encode(record)
            if self._open and self._open.plain_bytes + len(encoded) > self._segment_bytes:
                self._end_segment()
            if self._open is None:
                self._open = _OpenSegment()
            self._open.add(record, encoded)

    def append_columns(self, columns: RecordColumns) -> None:
        self.append(columns.records())

    def close(self) -> RangeReceipt:
        self._end_segment()
        return RangeReceipt(
            range=self._range,
            files=tuple(self._done),
            records=sum(receipt.records for receipt in self._done),
            losses=tuple(sorted(self._encoder.losses.items())),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = None

    def _end_segment(self) -> None:
        segment, self._open = self._open, None
        if segment is None:
            return
        data = segment.finish()
        name = f"{self._prefix}/segment-{segment.first_offset:0{START_DIGITS}}.bin.zst"
        self._files.put(name, data, last_message_ms=segment.timestamp_max_ms)
        self._done.append(segment.receipt(self._range, name, data))


class _OpenSegment:
    """Compresses while growing, so only stored bytes are kept; the header is filled in last."""

    def __init__(self) -> None:
        import zstandard

        self.plain_bytes = self.records = 0
        self.first_offset = self.last_offset = -1
        self.timestamp_min_ms, self.timestamp_max_ms = 1 << 63, -1
        self._stored = bytearray(HEADER_BYTES)
        self._compressor: ZstdCompressionObj = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compressobj()
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def add(self, record: Record, encoded: bytes) -> None:
        if not self.records:
            self.first_offset = record.offset
        self.last_offset = record.offset
        self.records += 1
        self.plain_bytes += len(encoded)
        self.timestamp_min_ms = min(self.timestamp_min_ms, record.timestamp_ms)
        self.timestamp_max_ms = max(self.timestamp_max_ms, record.timestamp_ms)
        self._pending.append(encoded)
        self._pending_bytes += len(encoded)
        if self._pending_bytes >= COMPRESS_BYTES:
            self._compress_pending()

    def finish(self) -> bytearray:
        """Return the whole file."""
        self._compress_pending()
        stored = self._stored
        stored += self._compressor.flush()
        header = SegmentHeader(MAGIC, VERSION, ZSTD, self.records, self.first_offset, self.last_offset)
        stored[:HEADER_BYTES] = header.encode()
        stored += FOOTER.pack(zlib.crc32(stored), FOOTER_MAGIC)
        return stored

    def receipt(self, log_range: LogRange, name: str, data: bytearray) -> FileReceipt:
        of = log_range.topic_partition
        end = self.last_offset + 1
        return FileReceipt(
            name=name,
            range=LogRange(topic=of.topic, partition=of.partition, start=self.first_offset, end=end),
            first_offset=self.first_offset,
            last_offset=self.last_offset,
            records=self.records,
            size_bytes=len(data),
            plain_bytes=self.plain_bytes,
            timestamp_min_ms=self.timestamp_min_ms,
            timestamp_max_ms=self.timestamp_max_ms,
            content_hash=hashlib.sha256(data).hexdigest(),
        )

    def _compress_pending(self) -> None:
        self._stored += self._compressor.compress(b"".join(self._pending))
        self._pending = []
        self._pending_bytes = 0
