"""Changed batches: as a broker accepts them, and with records taken out as Kafka's log cleaner does."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

from crc32c import crc32c

from offsite.log.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    HEADER_STRUCT,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from offsite.log.buffer import Buffer
from offsite.log.codec import compress, decompress
from offsite.log.records.batch_records import decode, encode, renumber
from offsite.log.records.record import LOG_APPEND_TIME, Record
from offsite.log.varint import PADDING, VarintReader, varint_reader
from offsite.model.errors import DamagedBatch, check

# Precompiled structs, and no unused message: called for every written batch.
_LENGTH_AND_ATTRIBUTES = struct.Struct(">8xi9xh")
_OFFSET_LENGTH_AND_EPOCH = struct.Struct(">qii")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_PRODUCER = struct.Struct(">qhi")  # id, epoch, base sequence
_CRC_POSITION, _PRODUCER_POSITION = 17, 43
_BROKER_ONLY = CONTROL_BIT | LOG_APPEND_TIME_BIT

_MAGIC = 2


def for_produce(
    batch: bytearray | memoryview,
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool = False,
) -> None:
    """Make one whole batch acceptable in a Produce request, in place: no copy, no byte behind the header changed.

    Sets base offset 0, leader epoch -1, the producer fields and the transactional bit; clears the delete horizon bit
    (record times stay: the deltas count from the same base); renews the CRC. Any other value makes the broker answer
    INVALID_RECORD. Raises `Bug` for a control or LogAppendTime batch, which no client may produce.

    Changes header bytes in place, enough for nearly every batch. The rest re-encodes: batches with inner gaps, of type
    LogAppendTime, too large for the target, or with a time edge inside.
    """
    length, attributes = _LENGTH_AND_ATTRIBUTES.unpack_from(batch)
    if length + LENGTH_END != len(batch) or attributes & _BROKER_ONLY:
        _refuse(batch, length, attributes)
    attributes &= ~(TRANSACTIONAL_BIT | DELETE_HORIZON_BIT)
    _OFFSET_LENGTH_AND_EPOCH.pack_into(batch, 0, 0, length, -1)
    _ATTRIBUTES.pack_into(batch, CRC_START, attributes | (TRANSACTIONAL_BIT if transactional else 0))
    _PRODUCER.pack_into(batch, _PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[CRC_START:]))


def _refuse(batch: Buffer, length: int, attributes: int) -> None:
    check(length + LENGTH_END == len(batch), f"{len(batch)} bytes given for a batch of {length + LENGTH_END}")
    check(not attributes & _BROKER_ONLY, f"a batch with attributes {attributes:#x} cannot be produced")


def needs_reencode(header: BatchHeader) -> bool:
    """Whether a broker would refuse the batch even after `for_produce`: the batch has gaps or broker-given times."""
    return header.has_gaps or header.timestamp_type == LOG_APPEND_TIME


def reencode_dense(batch: Buffer, header: BatchHeader) -> bytearray:
    """The records of the batch, at least one, numbered 0, 1, … in a CreateTime batch of the same codec.

    Keys, values, headers and times stay exact. A LogAppendTime record gets the append time as its own time.
    """
    return _encode_like(header, renumber(decode(batch, header)))


def filter_records(batch: Buffer, header: BatchHeader, predicate: Callable[[Record], bool]) -> Buffer | None:
    """The batch with only the records accepted by `predicate`, at their offsets; None if no record remains.

    The very batch, unchanged, if all records remain; otherwise a new CreateTime batch of the same codec.
    """
    records = decode(batch, header)
    retained = [record for record in records if predicate(record)]
    if len(retained) == len(records):
        return batch if retained else None
    return _encode_like(header, retained) if retained else None


def split_runs(batch: Buffer, header: BatchHeader, *, start: int, end: int) -> list[tuple[int, int, bytearray]]:
    """The records at offsets in `[start, end)` as CreateTime batches without gaps, with the offsets `[from, to)` of
    every batch.

    Codec, times and producer are those of the batch.
    """
    runs: list[list[Record]] = []
    for record in decode(batch, header):
        if start <= record.offset < end:
            if runs and runs[-1][-1].offset + 1 == record.offset:
                runs[-1].append(record)
            else:
                runs.append([record])
    return [(run[0].offset, run[-1].offset + 1, _encode_like(header, run)) for run in runs]


def _encode_like(header: BatchHeader, records: Sequence[Record]) -> bytearray:
    return encode(
        records,
        codec=header.codec,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
    )


def keep_offsets(batch: Buffer, header: BatchHeader, offsets: Sequence[int]) -> Buffer:
    """The batch (`header.view(data)`) with only the records at `offsets`. The offsets rise, are at least one, and are
    all in the batch.

    Raises `DamagedBatch` when the body differs from the header's promise, or lacks one of `offsets`.

    As the cleaner, copies the remaining records as bytes, because their deltas count from the base offset and the base
    time of the batch, and both stay; so do last offset, leader epoch, producer, base sequence, attributes and codec.
    New are the number of records, the latest time (for CreateTime batches), the length and the CRC. Kafka's
    `MemoryRecords.filterTo` starts the times anew at the first remaining record; readers see the same times.
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


def change_beginnings(
    batch: Buffer, header: BatchHeader, change: Callable[[int, bytes, bool], bytes | None]
) -> tuple[Buffer, int]:
    """The batch (`header.view(data)`) with other first bytes of keys and values, and the number of those changed.

    `change` gets the offset of the record with each key (`True`) and value that is not null, and returns its new first
    bytes, at most as many as it has, or None. So no length in the batch changes: records, offsets, times, headers,
    producer and codec stay as they are, byte by byte. New are the compressed length and the CRC. Without a change the
    batch itself is returned. Raises `DamagedBatch`.
    """
    header.check_is_of(batch)
    body = bytes(decompress(header.codec, memoryview(batch)[HEADER_BYTES:])) + PADDING
    changed, count = bytearray(), 0
    for offset, position, content, is_key in _fields(body, header):
        if (beginning := change(offset, content, is_key)) is not None:
            check(len(beginning) <= len(content), "a field would grow")
            changed = changed or bytearray(memoryview(body)[: len(body) - len(PADDING)])
            changed[position : position + len(beginning)] = beginning
            count += 1
    return (_batch(header, compress(header.codec, changed)), count) if count else (batch, 0)


def _fields(body: bytes, header: BatchHeader) -> Iterator[tuple[int, int, bytes, bool]]:
    """Offset of the record, position and content of every key (`True`) and value that is not null; `body` ends with
    `PADDING`."""
    read = varint_reader()
    for offset, _, start, end in _records(body, header):
        _, position = read(body, start)
        _, position = read(body, position + 1)  # behind the attributes: the time
        _, position = read(body, position)  # the offset
        for is_key in (True, False):
            length, position = read(body, position)
            if position + max(length, 0) > end:
                raise DamagedBatch(f"a record of the batch at offset {header.base_offset} is damaged inside")
            if length >= 0:
                yield offset, position, body[position : position + length], is_key
                position += length


def split_to_fit(batch: Buffer, header: BatchHeader, max_bytes: int) -> list[Buffer]:
    """The batch (`header.view(data)`) if it has at most `max_bytes`; else its records in CreateTime batches of at most
    `max_bytes`, at their offsets. A batch of one record stays whole, whatever its size."""
    if len(batch) <= max_bytes or header.record_count <= 1:
        return [batch]
    return list(_halves(header, decode(batch, header), max_bytes))


def _halves(header: BatchHeader, records: Sequence[Record], max_bytes: int) -> Iterator[Buffer]:
    middle = len(records) // 2
    for half in (records[:middle], records[middle:]):
        encoded = _encode_like(header, half)
        if len(encoded) <= max_bytes or len(half) == 1:
            yield encoded
        else:
            yield from _halves(header, half, max_bytes)


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
