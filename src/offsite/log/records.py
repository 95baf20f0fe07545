"""Batches into records and back, where somebody needs records; the copy itself never does.

The fast path is aiokafka's Cython codec; what it cannot hold exactly goes through `record_body`. Compression is always
`codec`'s, so that its bounds hold and a batch keeps its codec even where that does not make it smaller. aiokafka takes
0.3 s to import, so only those who decode or encode pay for it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from crc32c import crc32c

from offsite.log.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from offsite.log.buffer import Buffer
from offsite.log.codec import NONE, compress, decompress
from offsite.log.record import LOG_APPEND_TIME, Record
from offsite.log.record_body import read_records, write_records
from offsite.model.check import check
from offsite.model.errors import DamagedBatch

__all__ = ["decode", "encode", "plain_batch", "renumber"]

_BEFORE_CRC = struct.Struct(">qiibI")
_AFTER_CRC = struct.Struct(">hiqqqhii")
_MAX_DELTA = (1 << 31) - 1
_NO_LIMIT = (1 << 31) - 1  # the builder must never stop at a size of its own


def decode(batch: Buffer, header: BatchHeader) -> list[Record]:
    """The records of one batch (`header.view(data)`), in order; those of a control batch hold its marker.

    LogAppendTime batches give every record the batch's max timestamp. Raises `DamagedBatch` if the body is not what the
    header promises. Does not check the CRC, see `verify_crc`.
    """
    header.check_is_of(batch)
    body = decompress(header.codec, memoryview(batch)[HEADER_BYTES:])
    try:
        return _decode_fast(batch, header, body)
    except UnicodeDecodeError:
        return read_records(
            body,
            count=header.record_count,
            base_offset=header.base_offset,
            base_timestamp_ms=header.base_timestamp_ms,
            append_time_ms=header.max_timestamp_ms if header.timestamp_type == LOG_APPEND_TIME else None,
        )


def encode(  # noqa: PLR0913 - the fields of a batch header
    records: Sequence[Record],
    *,
    codec: int = NONE,
    base_offset: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_append_time: bool = False,
) -> bytearray:
    """One whole batch with a valid CRC that holds these records, at least one, at their offsets: a CreateTime batch, or
    with `is_append_time` one of LogAppendTime, whose readers see the latest of the times in all records.

    Offsets must rise and may have gaps; times may fall and be -1. `base_offset` is the first record's unless given.
    """
    check(len(records) > 0, "a batch without records cannot be encoded")
    base = records[0].offset if base_offset is None else base_offset
    last_delta = records[-1].offset - base
    check(base <= records[0].offset and last_delta <= _MAX_DELTA, f"offsets from {base} do not fit in one batch")
    body = compress(codec, _encode_body(records, base))
    attributes = codec | (TRANSACTIONAL_BIT if is_transactional else 0) | (LOG_APPEND_TIME_BIT if is_append_time else 0)
    times_ms = (records[0].timestamp_ms, max(record.timestamp_ms for record in records))
    producer = (producer_id, producer_epoch, base_sequence)
    after_crc = _AFTER_CRC.pack(attributes, last_delta, *times_ms, *producer, len(records))
    crc = crc32c(body, crc32c(after_crc))
    length = HEADER_BYTES - 12 + len(body)
    return bytearray().join((_BEFORE_CRC.pack(base, length, leader_epoch, 2, crc), after_crc, body))


def renumber(records: Sequence[Record], *, start: int = 0) -> list[Record]:
    """The same records at the offsets `start`, `start + 1`, …: without gaps, otherwise untouched."""
    new, kind = tuple.__new__, Record
    return [new(kind, (offset, *record[1:])) for offset, record in enumerate(records, start)]


def _decode_fast(batch: Buffer, header: BatchHeader, body: Buffer) -> list[Record]:
    from aiokafka.errors import CorruptRecordException  # type: ignore[import-untyped]
    from aiokafka.record.default_records import DefaultRecordBatch  # type: ignore[import-untyped]

    new, kind = tuple.__new__, Record
    try:
        return [
            new(kind, (row.offset, row.timestamp, row.timestamp_type, row.key, row.value, tuple(row.headers)))
            for row in DefaultRecordBatch(plain_batch(batch, header, body))
        ]
    except CorruptRecordException as error:
        raise DamagedBatch(f"the batch at offset {header.base_offset} is damaged inside: {error}") from error


def plain_batch(batch: Buffer, header: BatchHeader, body: Buffer) -> Buffer:
    """The batch as if its producer had not compressed it (CRC and length left alone: nobody looks at them)."""
    if header.codec == NONE:
        return batch
    head = bytearray(memoryview(batch)[:HEADER_BYTES])
    struct.pack_into(">h", head, CRC_START, header.attributes & ~CODEC_MASK)
    return head + body


def _encode_body(records: Sequence[Record], base_offset: int) -> Buffer:
    if records[0].timestamp_ms == -1:  # the builder takes -1 for "no record yet" and would shift the times
        return write_records(records, base_offset=base_offset, base_timestamp_ms=-1)
    try:
        return _encode_fast(records, base_offset)
    except UnicodeEncodeError:
        return write_records(records, base_offset=base_offset, base_timestamp_ms=records[0].timestamp_ms)


def _encode_fast(records: Sequence[Record], base_offset: int) -> memoryview:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(2, NONE, False, -1, -1, -1, _NO_LIMIT)
    append = builder.append
    for offset, timestamp_ms, _, key, value, headers in records:
        append(offset - base_offset, timestamp_ms, key, value, list(headers))
    return memoryview(builder.build())[HEADER_BYTES:]
