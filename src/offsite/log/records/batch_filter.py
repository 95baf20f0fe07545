"""Removes records from a batch as Kafka's log cleaner does: the remaining records keep their offsets, the batch keeps
its own.

The remaining records are copied as bytes: their deltas count from the base offset and the base time of the batch, and
both stay. Last offset, leader epoch, producer, base sequence, attributes and codec stay as well. New are the number of
records, the latest time (for CreateTime batches), the length and the CRC. Kafka's `MemoryRecords.filterTo` starts the
times again at the first remaining record; readers see the same times. See `rewrite` for batches sent to a broker.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from crc32c import crc32c

from offsite.log.batch import CODEC_MASK, CRC_START, HEADER_BYTES, HEADER_STRUCT, LENGTH_END, BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.codecs.codec import compress, decompress
from offsite.log.records.varint import PADDING, VarintReader, varint_reader
from offsite.model.check import check
from offsite.model.errors import DamagedBatch

__all__ = ["empty_batch", "keep_offsets"]

_MAGIC = 2
_CRC = struct.Struct(">I")
_CRC_POSITION = 17


def keep_offsets(batch: Buffer, header: BatchHeader, offsets: Sequence[int]) -> Buffer:
    """The batch (`header.view(data)`) with only the records at `offsets`. The offsets rise, are at least one, and are
    all in the batch.

    Raises `DamagedBatch` when the body differs from the header's promise, or lacks one of `offsets`.
    """
    header.check_is_of(batch)
    check(len(offsets) > 0, "a batch without records is made by emptied")
    body = bytes(decompress(header.codec, memoryview(batch)[HEADER_BYTES:])) + PADDING
    retained: list[bytes] = []
    latest_ms = -1
    remaining_offsets = iter(offsets)
    next_offset = next(remaining_offsets)
    for offset, time_ms, start, end in _records(body, header):
        if offset == next_offset:
            retained.append(body[start:end])
            latest_ms = max(latest_ms, time_ms)
            next_offset = next(remaining_offsets, -1)
    if len(retained) != len(offsets):
        raise DamagedBatch(
            f"the batch at offset {header.base_offset} has {len(retained)} of the {len(offsets)} records to keep"
        )
    latest_ms = header.max_timestamp_ms if header.timestamp_type else latest_ms
    changed = header._replace(record_count=len(retained), max_timestamp_ms=latest_ms)
    return _batch(changed, compress(header.codec, b"".join(retained)))


def empty_batch(header: BatchHeader) -> bytearray:
    """The batch without any record: still says how far the producer and the log had come."""
    return _batch(header._replace(record_count=0, attributes=header.attributes & ~CODEC_MASK), b"")


def _records(body: bytes, header: BatchHeader) -> Iterator[tuple[int, int, int, int]]:
    """Offset, time, start and end of every record; `body` ends with `PADDING`."""
    read, size = varint_reader(), len(body) - len(PADDING)
    position, dense = 0, not header.has_gaps
    base, base_ms = header.base_offset, header.base_timestamp_ms
    try:
        for number in range(header.record_count):
            length, begin = read(body, position)
            end = begin + length
            if length <= 0 or end > size:
                raise DamagedBatch(f"a record of the batch at offset {base} reaches past it")
            delta_ms, behind = read(body, begin + 1)  # behind its attributes
            yield base + (number if dense else _delta(read, body, behind)), base_ms + delta_ms, position, end
            position = end
    except ValueError as error:
        raise DamagedBatch(f"the batch at offset {base} is damaged inside: {error}") from error
    if position != size:
        raise DamagedBatch(f"{size - position} bytes after the last of {header.record_count} records")


def _delta(read: VarintReader, body: bytes, position: int) -> int:
    return read(body, position)[0]


def _batch(header: BatchHeader, body: Buffer) -> bytearray:
    batch = bytearray(HEADER_BYTES)
    fields = header[2:]
    base, epoch, _, attributes, delta, begin, latest, *producer = fields
    length = HEADER_BYTES - LENGTH_END + len(body)
    HEADER_STRUCT.pack_into(batch, 0, base, length, epoch, _MAGIC, 0, attributes, delta, begin, latest, *producer)
    batch += body
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[CRC_START:]))
    return batch
