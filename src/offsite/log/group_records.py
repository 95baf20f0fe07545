"""Records of `__consumer_offsets`: what a broker wrote there, and the committed offsets they add up to. Pure.

Formats: Kafka's OffsetCommitKey and OffsetCommitValue (versions 0 to 4, the last one flexible by KIP-482). Keys of
other versions describe groups and members; they and versions yet unknown are skipped and counted, never guessed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from offsite.log.record import Record
from offsite.model.errors import DamagedBatch

__all__ = ["GroupPartition", "OffsetRecord", "parse_group_record"]

OFFSET_KEY_VERSIONS = (0, 1)
LATEST_VALUE_VERSION = 4
_EPOCH_VERSION = 3
_FLEXIBLE_VERSION = 4
_I16, _I32 = struct.Struct(">h"), struct.Struct(">i")
_OFFSET, _OFFSET_AND_EPOCH = struct.Struct(">q"), struct.Struct(">qi")
_VARINT_MORE = 0x80


class GroupPartition(NamedTuple):
    """What one committed offset is of."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRecord:
    """The record at log offset `position`: group and partition `of` committed `offset`, or (None) its commit was
    removed."""

    position: int
    of: GroupPartition
    offset: int | None
    leader_epoch: int = -1
    metadata: str = ""


def parse_group_record(record: Record) -> OffsetRecord | None:
    """The commit or removal that a record of `__consumer_offsets` holds; None for one of another kind or of a version
    that is not known. Raises `DamagedBatch` for one that is cut."""
    try:
        return _parse(record)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DamagedBatch(f"the group record at offset {record.offset} is damaged inside") from error


def _parse(record: Record) -> OffsetRecord | None:
    key, value = record.key or b"", record.value
    if len(key) < _I16.size or _I16.unpack_from(key)[0] not in OFFSET_KEY_VERSIONS:
        return None
    of = _key(key)
    if not value:
        return OffsetRecord(position=record.offset, of=of, offset=None)
    (version,) = _I16.unpack_from(value)
    if not 0 <= version <= LATEST_VALUE_VERSION:
        return None
    offset, epoch, metadata = _value(value, version)
    return OffsetRecord(position=record.offset, of=of, offset=offset, leader_epoch=epoch, metadata=metadata)


def _key(key: bytes) -> GroupPartition:
    group, position = _text(key, _I16.size)
    topic, position = _text(key, position)
    return GroupPartition(group, topic, _I32.unpack_from(key, position)[0])


def _value(value: bytes, version: int) -> tuple[int, int, str]:
    """Offset, leader epoch, metadata; the times that follow are the brokers' own business."""
    if version < _EPOCH_VERSION:
        (offset,) = _OFFSET.unpack_from(value, _I16.size)
        return offset, -1, _text(value, _I16.size + _OFFSET.size)[0]
    offset, epoch = _OFFSET_AND_EPOCH.unpack_from(value, _I16.size)
    position = _I16.size + _OFFSET_AND_EPOCH.size
    metadata = _compact_text(value, position) if version >= _FLEXIBLE_VERSION else _text(value, position)[0]
    return offset, epoch, metadata


def _text(data: bytes, position: int) -> tuple[str, int]:
    """A text after its 16-bit length, and where it ends. Null reads as empty."""
    (length,) = _I16.unpack_from(data, position)
    start = position + _I16.size
    return _slice(data, start, max(0, length)), start + max(0, length)


def _compact_text(data: bytes, position: int) -> str:
    length = shift = 0
    while True:
        byte = data[position]
        position += 1
        length |= (byte & ~_VARINT_MORE) << shift
        shift += 7
        if byte < _VARINT_MORE:
            return _slice(data, position, max(0, length - 1))


def _slice(data: bytes, start: int, length: int) -> str:
    if start + length > len(data):
        raise IndexError(f"{length} bytes wanted at {start} of {len(data)}")
    return data[start : start + length].decode()
