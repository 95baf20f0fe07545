"""Records of `__consumer_offsets`: what a broker wrote there, and the committed offsets they add up to. Pure.

Formats: Kafka's OffsetCommitKey and OffsetCommitValue (versions 0 to 4, the last one flexible by KIP-482). Keys of
other versions describe groups and members; they and versions yet unknown are skipped and counted, never guessed.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from offsite.log.groups.offsets import NO_EPOCH, CommittedOffset
from offsite.log.records.record import Record
from offsite.model.errors import DamagedBatch

__all__ = ["GroupPartition", "OffsetRecord", "parse_group_record"]

OFFSET_KEY_VERSIONS = (0, 1)
LATEST_VALUE_VERSION = 4
KEYS_KEPT = 100_000
"""The same keys come again and again: reading one anew takes longer than all the rest."""
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


class OffsetRecord(NamedTuple):
    """The record at log offset `position`: what group and partition `of` committed, as the broker wrote it, or (None)
    that the commit was removed. Only commits that last are read further: most do not."""

    position: int
    of: GroupPartition
    value: bytes | None

    def committed(self) -> CommittedOffset:
        """Raises `DamagedBatch` for a value that is cut."""
        try:
            offset, epoch, metadata = _value(self.value or b"")
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise DamagedBatch(f"the group record at offset {self.position} is damaged inside") from error
        return CommittedOffset(self.of.partition, offset, epoch, metadata)


def parse_group_record(record: Record) -> OffsetRecord | None:
    """The commit or removal that a record of `__consumer_offsets` holds; None for one of another kind or of a version
    that is not known. Raises `DamagedBatch` for one whose key is cut."""
    try:
        of = _group_partition(record.key or b"")
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DamagedBatch(f"the group record at offset {record.offset} is damaged inside") from error
    if of is None or (record.value and not _is_known(record.value)):
        return None
    return OffsetRecord(record.offset, of, record.value or None)


@lru_cache(maxsize=KEYS_KEPT)
def _group_partition(key: bytes) -> GroupPartition | None:
    if len(key) < _I16.size or _I16.unpack_from(key)[0] not in OFFSET_KEY_VERSIONS:
        return None
    group, position = _text(key, _I16.size)
    topic, position = _text(key, position)
    return GroupPartition(group, topic, _I32.unpack_from(key, position)[0])


def _is_known(value: bytes) -> bool:
    return int.from_bytes(value[: _I16.size]) <= LATEST_VALUE_VERSION


def _value(value: bytes) -> tuple[int, int, str]:
    """Offset, leader epoch, metadata; the times that follow are the brokers' own business."""
    (version,) = _I16.unpack_from(value)
    if version < _EPOCH_VERSION:
        (offset,) = _OFFSET.unpack_from(value, _I16.size)
        return offset, NO_EPOCH, _text(value, _I16.size + _OFFSET.size)[0]
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
