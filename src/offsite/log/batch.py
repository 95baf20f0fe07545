"""RecordBatch (magic 2) headers and CRC: where a batch of a buffer begins and ends, and the fields of its header.

Owns the 61 header bytes. Never looks at records, and never changes a byte (`rewrite` does). Format: Kafka's
RecordBatch, KIP-98; delete horizon KIP-534. All integers big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, Self

from offsite.log.buffer import Buffer
from offsite.model.errors import DamagedBatch, OldMessageFormat, check
from offsite.model.units import MIB

HEADER_STRUCT = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER_STRUCT.size  # 61
LENGTH_END = 12  # base offset and length; the length counts from here
_MAGIC_POSITION = 16
_MAGIC = 2
CRC_START = 21  # the CRC32C covers everything from the attributes on
_MIN_LENGTH = HEADER_BYTES - LENGTH_END
_MIN_OLD_LENGTH = 14  # the smallest message of magic 0
_LENGTH = struct.Struct(">8xi")

MAX_BATCHES = 600_000
"""Most batches in one buffer beyond 32 MiB: a header takes half a kilobyte."""
_SCANNED_BYTES = 32 * MIB

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
"""Set by a compaction: `base_timestamp_ms` is the time from which tombstones may be removed, and no longer the time of
a record. Timestamp deltas still count from `base_timestamp_ms`."""


class BatchHeader(NamedTuple):
    """One batch header, and the position of the batch in the scanned buffer. A tuple, because the hot path makes
    millions. `size_bytes` is the whole batch, header included."""

    position: int
    size_bytes: int
    base_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def end_position(self) -> int:
        """Where the next batch begins in the buffer."""
        return self.position + self.size_bytes

    @property
    def last_offset(self) -> int:
        """The last offset of the batch. Compaction may have removed the record at the offset."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after the batch: where a reader continues."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """0 CreateTime, 1 LogAppendTime. With LogAppendTime every record has `max_timestamp_ms`."""
        return 1 if self.attributes & LOG_APPEND_TIME_BIT else 0

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """The batch holds a transaction marker and no record for consumers."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_gaps(self) -> bool:
        """Compaction has removed records from the batch (all records, when `record_count` is 0)."""
        return self.record_count != self.last_offset_delta + 1

    def view(self, data: Buffer) -> memoryview:
        """The batch as a view of the scanned buffer, without a copy."""
        return memoryview(data)[self.position : self.position + self.size_bytes]

    def check_is_of(self, batch: Buffer) -> None:
        """Raise `Bug` unless `batch` has the size of the header's batch."""
        check(len(batch) == self.size_bytes, f"{len(batch)} bytes given for a batch of {self.size_bytes}")


def scan(data: Buffer, *, start: int = 0) -> list[BatchHeader]:
    """The headers of all whole batches from position `start` on; positions are relative to `data`.

    A torn last batch is left out: compare the last `end_position` with `len(data)` to detect one. Nothing under the CRC
    is trusted yet, see `verify_crc`. Raises `DamagedBatch` on an impossible length, on an unknown magic, on offsets
    without a rise from batch to batch, and on more than `MAX_BATCHES` in a large buffer. Raises `OldMessageFormat` on
    magic 0 and 1.
    """
    if len(data) - start > _SCANNED_BYTES:
        return _scan_large(memoryview(data), start)
    return _scan(data, start)


def _scan(data: Buffer, start: int) -> list[BatchHeader]:
    unpack_from, new, kind = HEADER_STRUCT.unpack_from, tuple.__new__, BatchHeader  # locals: the hot loop
    headers: list[BatchHeader] = []
    append = headers.append
    position, end, next_offset = start, len(data), 0
    last_start = end - HEADER_BYTES
    while position <= last_start:
        base, length, epoch, magic, crc, bits, delta, begin, latest, pid, pid_epoch, seq, n = unpack_from(
            data, position
        )
        if magic != _MAGIC or length < _MIN_LENGTH:
            _refuse_framing(base, length, magic, position)
        size = length + LENGTH_END
        if position + size > end:
            return headers
        if base < next_offset or delta < 0:
            _refuse_offsets(base, delta, next_offset, position)
        append(new(kind, (position, size, base, epoch, crc, bits, delta, begin, latest, pid, pid_epoch, seq, n)))
        next_offset = base + delta + 1
        position += size
    _check_tail(data, position)
    return headers


def _scan_large(data: memoryview, start: int) -> list[BatchHeader]:
    """Scan part by part. A buffer is large because one batch is large, not because of millions of small batches."""
    headers: list[BatchHeader] = []
    while len(data) - start >= HEADER_BYTES:
        size = LENGTH_END + _LENGTH.unpack_from(data, start)[0]
        part_headers = _scan(data[: start + max(size, _SCANNED_BYTES, HEADER_BYTES)], start)
        if not part_headers:
            break
        if headers and part_headers[0].base_offset < headers[-1].next_offset:
            _refuse_offsets(
                part_headers[0].base_offset, part_headers[0].last_offset_delta, headers[-1].next_offset, start
            )
        headers += part_headers
        if len(headers) > MAX_BATCHES:
            raise DamagedBatch(f"more than {MAX_BATCHES} batches in {start} bytes")
        start = headers[-1].end_position
    _check_tail(data, start)
    return headers


def verify_crc(data: Buffer, headers: Iterable[BatchHeader]) -> None:
    """Compare the CRC32C of every batch with the header. Raises `DamagedBatch` for the first batch with another CRC.

    The CRC covers byte 21 to the end. Base offset, length, leader epoch and magic lie outside of the CRC: `scan` checks
    these fields as far as possible, and the hash of the object with the batch protects the rest.
    """
    from crc32c import crc32c  # 40 ms: crc32c reads its own version at import; callers without a check do not pay

    view = memoryview(data)
    for header in headers:
        position, size_bytes = header.position, header.size_bytes
        if crc32c(view[position + CRC_START : position + size_bytes]) != header.crc:
            raise DamagedBatch(
                f"the batch at offset {header.base_offset} (byte {position}, {size_bytes} bytes) fails its CRC32C",
                hint="read the range again from another copy; to see the damage, run: offsite verify --deep",
            )


def _check_tail(data: Buffer, position: int) -> None:
    """A tail too short for a header may still hold a whole message of an old format, or an impossible length."""
    if len(data) - position > _MAGIC_POSITION:
        base, length, _, magic = struct.unpack_from(">qiib", data, position)
        if magic != _MAGIC or length < _MIN_LENGTH:
            _refuse_framing(base, length, magic, position)


def _refuse_framing(base: int, length: int, magic: int, position: int) -> NoReturn:
    if magic in (0, 1) and length >= _MIN_OLD_LENGTH:
        raise OldMessageFormat(
            f"message format {magic} at offset {base}: written before Kafka 0.11 and never converted",
            hint="copy the topic through a consumer and a producer once, then back up the copy",
        )
    raise DamagedBatch(f"no batch at byte {position}: offset {base}, length {length}, magic {magic}")


def _refuse_offsets(base: int, last_delta: int, next_offset: int, position: int) -> NoReturn:
    raise DamagedBatch(
        f"offsets do not rise at byte {position}: base offset {base}, last offset delta {last_delta}, "
        f"expected at least {next_offset}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBatch:
    """The last known batch of a log. Tells a log that continues from another log of the same name.

    `crc`: the batch's own CRC32C, over times, producer and records.
    """

    last_offset: int
    crc: int

    @classmethod
    def of(cls, header: BatchHeader) -> Self:
        return cls(last_offset=header.last_offset, crc=header.crc)
