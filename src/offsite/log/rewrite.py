"""The changes that a batch needs before a broker accepts the batch, and no other changes.

`for_produce` changes header bytes in place, enough for nearly every batch. The rest re-encodes: batches with inner
gaps, of type LogAppendTime, too large for the target, or with a time edge inside.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from crc32c import crc32c

from offsite.log.batch import (
    CONTROL_BIT,
    CRC_START,
    DELETE_HORIZON_BIT,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from offsite.log.buffer import Buffer
from offsite.log.records.batch_records import decode, encode, renumber
from offsite.log.records.record import LOG_APPEND_TIME, Record
from offsite.model.check import check

__all__ = ["filter_records", "for_produce", "needs_reencode", "reencode_dense", "split_runs"]

# Precompiled structs, and no unused message: called for every written batch.
_LENGTH_AND_ATTRIBUTES = struct.Struct(">8xi9xh")
_OFFSET_LENGTH_AND_EPOCH = struct.Struct(">qii")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_PRODUCER = struct.Struct(">qhi")  # id, epoch, base sequence
_CRC_POSITION, _PRODUCER_POSITION = 17, 43
_BROKER_ONLY = CONTROL_BIT | LOG_APPEND_TIME_BIT


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
