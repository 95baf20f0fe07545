"""Decodes batches into records and encodes records into batches, for callers that need records. The copy itself never
does.

The fast path is aiokafka's Cython codec; content outside of its abilities goes through `record_body`. Compression is
always `codec`'s: its bounds hold, and a batch keeps its codec even when the result is not smaller. aiokafka is
imported only to decode or encode.

Logs from other sources than a broker get batches of a size that brokers accept (`encode_batches`). Filler records take
the offsets below a log's start, and are deleted before anybody reads them. A filler record has no key, no value and no
time. Older releases also filled gaps of compacted topics, with a key of their own. Compaction removes such records some
time later; readers recognize them by the key.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from offsite.log.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from offsite.log.buffer import Buffer
from offsite.log.codec import NONE, ZSTD, compress, decompress
from offsite.log.cython_codec import cython_codec
from offsite.log.records.record import CREATE_TIME, LOG_APPEND_TIME, Record
from offsite.log.records.record_body import MIN_RECORD_BYTES, read_records, write_records
from offsite.model.errors import DamagedBatch, check
from offsite.model.units import KIB

_BEFORE_CRC = struct.Struct(">qiibI")
_AFTER_CRC = struct.Struct(">hiqqqhii")
_MAX_DELTA = (1 << 31) - 1
_NO_LIMIT = (1 << 31) - 1  # the builder must never stop at a size of its own

MAX_DECODED_RECORDS = 1_000_000
"""Most records of one batch in memory at once. A batch of 448 MiB has room for 64 million."""
BATCH_BYTES_MAX = 512 * KIB
"""Plain bytes of a batch, unless one record is larger: half of the brokers' default limit, and good to compress."""
BATCH_RECORDS_MAX = 4096
"""A reader of one record decodes the whole batch."""
_RECORD_BYTES = 16  # lengths, deltas of time and offset
_SPAN_MAX = 1 << 30  # of offsets: a batch holds them as 32-bit deltas
FILLER_KEY = b"\0offsite-filler"
"""Key of releases before 0.12. No common serializer writes a key with this prefix and no value."""
FILLER_MAX_RECORDS = 250_000
"""Records in one batch: at most 200 KB compressed, 6 MB while the broker validates the batch."""
_CREATE = -2  # in place of an append time, which is -1 or later


def decode(batch: Buffer, header: BatchHeader) -> list[Record]:
    """The records of one batch (`header.view(data)`), in order; the records of a control batch hold its marker.

    LogAppendTime batches give every record the batch's max timestamp. Raises `DamagedBatch` if the body differs from
    the header's promise, or holds more than `MAX_DECODED_RECORDS`. Does not check the CRC, see `verify_crc`.
    """
    plain = _bounded_plain(batch, header)
    try:
        return list(_fast_records(plain, header))
    except UnicodeDecodeError:
        return list(_exact_records(plain, header))


def iterate(batch: Buffer, header: BatchHeader) -> Iterator[Record]:
    """The records of one batch, record by record, for any number of records: memory holds only the body. Raises at the
    first damage."""
    plain = _plain_batch(batch, header)
    yielded = 0
    try:
        for record in _fast_records(plain, header):
            yield record
            yielded += 1
    except UnicodeDecodeError:
        yield from islice(_exact_records(plain, header), yielded, None)


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
    """One whole batch with a valid CRC that holds `records`, at least one, at their offsets. A CreateTime batch, or
    with `is_append_time` a LogAppendTime batch: readers see the latest of the times in all records.

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
    from crc32c import crc32c  # see `batch.verify_crc`

    crc = crc32c(body, crc32c(after_crc))
    length = HEADER_BYTES - 12 + len(body)
    return bytearray().join((_BEFORE_CRC.pack(base, length, leader_epoch, 2, crc), after_crc, body))


def renumber(records: Sequence[Record], *, start: int = 0) -> list[Record]:
    """The records at the offsets `start`, `start + 1`, …: without gaps, otherwise unchanged."""
    new, kind = tuple.__new__, Record
    return [new(kind, (offset, *record[1:])) for offset, record in enumerate(records, start)]


class DecodedRows(NamedTuple):
    """`rows` have the attributes `offset`, `timestamp`, `key`, `value` and `headers`, a list."""

    rows: list[Any]
    plain_bytes: int


def decode_rows(batch: Buffer, header: BatchHeader) -> DecodedRows | None:
    """The records of one batch as aiokafka's own objects, for callers that extract columns: a `Record` per row costs
    half as much again. None for content outside of aiokafka's abilities (`decode` can read such a batch). Raises as
    `decode`."""
    plain = _bounded_plain(batch, header)
    codec = cython_codec()
    try:
        return DecodedRows(list(codec.batch(plain)), len(plain) - HEADER_BYTES)
    except UnicodeDecodeError:
        return None
    except codec.corrupt as error:
        raise _damaged_inside(header, error) from error


def _bounded_plain(batch: Buffer, header: BatchHeader) -> Buffer:
    """As `_plain_batch`. Raises `DamagedBatch` for more than `MAX_DECODED_RECORDS`."""
    if header.record_count > MAX_DECODED_RECORDS:
        raise DamagedBatch(
            f"the batch at offset {header.base_offset} says that it holds {header.record_count} records, more than "
            f"the {MAX_DECODED_RECORDS} that are held in memory at once"
        )
    return _plain_batch(batch, header)


def _plain_batch(batch: Buffer, header: BatchHeader) -> Buffer:
    """The batch as if the producer had not compressed the body. CRC and length stay unchanged: nobody reads them."""
    header.check_is_of(batch)
    body = decompress(header.codec, memoryview(batch)[HEADER_BYTES:])
    if not 0 <= header.record_count <= len(body) // MIN_RECORD_BYTES:
        raise DamagedBatch(
            f"the batch at offset {header.base_offset} holds {len(body)} bytes, and not the {header.record_count} "
            "records that its header tells of"
        )
    if header.codec == NONE:
        return batch
    head = bytearray(memoryview(batch)[:HEADER_BYTES])
    struct.pack_into(">h", head, CRC_START, header.attributes & ~CODEC_MASK)
    if not isinstance(body, bytearray):
        return head + body
    body[:0] = head  # in place: a large body is never in memory twice
    return body


def _fast_records(plain: Buffer, header: BatchHeader) -> Iterator[Record]:
    """Raises `UnicodeDecodeError` for content outside of aiokafka's abilities."""
    new, kind = tuple.__new__, Record
    codec = cython_codec()
    try:
        for row in codec.batch(plain):
            yield new(kind, (row.offset, row.timestamp, row.timestamp_type, row.key, row.value, tuple(row.headers)))
    except codec.corrupt as error:
        raise _damaged_inside(header, error) from error


def _damaged_inside(header: BatchHeader, error: Exception) -> DamagedBatch:
    return DamagedBatch(f"the batch at offset {header.base_offset} is damaged inside: {error}")


def _exact_records(plain: Buffer, header: BatchHeader) -> Iterator[Record]:
    return read_records(
        memoryview(plain)[HEADER_BYTES:],
        count=header.record_count,
        base_offset=header.base_offset,
        base_timestamp_ms=header.base_timestamp_ms,
        append_time_ms=header.max_timestamp_ms if header.timestamp_type == LOG_APPEND_TIME else None,
    )


def _encode_body(records: Sequence[Record], base_offset: int) -> Buffer:
    if records[0].timestamp_ms == -1:  # the builder takes -1 for "no record yet" and would shift the times
        return write_records(records, base_offset=base_offset, base_timestamp_ms=-1)
    try:
        return _encode_fast(records, base_offset)
    except UnicodeEncodeError:
        return write_records(records, base_offset=base_offset, base_timestamp_ms=records[0].timestamp_ms)


def _encode_fast(records: Sequence[Record], base_offset: int) -> memoryview:
    builder = cython_codec().builder(2, NONE, False, -1, -1, -1, _NO_LIMIT)
    append = builder.append
    for offset, timestamp_ms, _, key, value, headers in records:
        append(offset - base_offset, timestamp_ms, key, value, list(headers))
    return memoryview(builder.build())[HEADER_BYTES:]


def encode_batches(runs: Iterable[Sequence[Record]], *, codec: int) -> Iterator[bytearray]:
    """Whole batches of a size that brokers accept, with the records of all `runs`. Offsets rise; gaps stay.

    Records of type LogAppendTime share a batch only with records of the very same time, because such a batch has one
    time; all other types become CreateTime.
    """
    pending: list[Record] = []
    size_bytes, pending_time = 0, _CREATE
    for run in runs:
        for record in run:
            time = record.timestamp_ms if record.timestamp_type == LOG_APPEND_TIME else _CREATE
            more_bytes = _size_bytes(record)
            if pending and (
                time != pending_time
                or size_bytes + more_bytes > BATCH_BYTES_MAX
                or len(pending) == BATCH_RECORDS_MAX
                or record.offset - pending[0].offset > _SPAN_MAX
            ):
                yield encode(pending, codec=codec, is_append_time=pending_time != _CREATE)
                pending, size_bytes = [], 0
            pending_time = time
            pending.append(record)
            size_bytes += more_bytes
    if pending:
        yield encode(pending, codec=codec, is_append_time=pending_time != _CREATE)


def _size_bytes(record: Record) -> int:
    size = _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"") + 2
    return size


def filler_batch(count: int) -> bytearray:
    """One batch of `count` filler records, at most `FILLER_MAX_RECORDS`, with a valid CRC. The caller may change the
    batch."""
    check(0 < count <= FILLER_MAX_RECORDS, f"a batch of {count} filler records")
    return bytearray(_built_filler(count))


def is_filler(record: Record) -> bool:
    """Whether consumers should skip the record (visible until compaction removes the record)."""
    return record.key == FILLER_KEY and record.value is None


@lru_cache(maxsize=16)
def _built_filler(count: int) -> bytearray:
    return encode([Record(offset, -1, CREATE_TIME, None, None) for offset in range(count)], codec=ZSTD)
