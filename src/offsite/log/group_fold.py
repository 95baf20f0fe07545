"""Folds the records of one partition of `__consumer_offsets` into committed offsets, as a group coordinator does.

Memory holds one entry per live (group, topic, partition), however long the log is. Commits made inside a transaction
count from the commit marker on, and never replace a commit written later (KIP-98).

Formats: Kafka's OffsetCommitKey and OffsetCommitValue (versions 0 to 4, version 4 flexible by KIP-482). Keys of other
versions describe groups and members. Such keys, and unknown versions, are skipped and counted, never guessed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from offsite.log.batch import BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.group_offsets import NO_EPOCH, CommittedOffset, GroupOffsets, TopicOffsetsBuilder
from offsite.log.markers import parse_control_marker
from offsite.log.records.batch_records import iterate
from offsite.log.records.record import Record
from offsite.model.errors import DamagedBatch

OFFSET_KEY_VERSIONS = (0, 1)
LATEST_VALUE_VERSION = 4
KEYS_KEPT = 100_000
"""Parsed keys to remember: the same keys repeat, and parsing a key takes longer than the rest of the work."""
_EPOCH_VERSION = 3
_FLEXIBLE_VERSION = 4
_I16, _I32 = struct.Struct(">h"), struct.Struct(">i")
_OFFSET, _OFFSET_AND_EPOCH = struct.Struct(">q"), struct.Struct(">qi")
_VARINT_MORE = 0x80


class GroupPartition(NamedTuple):
    """The key of a committed offset: group, topic and partition."""

    group: str
    topic: str
    partition: int


class OffsetRecord(NamedTuple):
    """The record at log offset `position`: a commit of `group_partition` with the value as the broker wrote it, or
    (None) the removal of a commit. Only lasting commits are parsed further: most commits are replaced."""

    position: int
    group_partition: GroupPartition
    value: bytes | None

    def committed(self) -> CommittedOffset:
        """The committed offset in the value. Raises `DamagedBatch` for a value that is cut."""
        try:
            offset, epoch, metadata = _value(self.value or b"")
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise DamagedBatch(f"the group record at offset {self.position} is damaged inside") from error
        return CommittedOffset(self.group_partition.partition, offset, epoch, metadata)


def parse_group_record(record: Record) -> OffsetRecord | None:
    """The commit or removal in a record of `__consumer_offsets`; None for a record of another kind or unknown version.
    Raises `DamagedBatch` for a record with a cut key."""
    try:
        group_partition = _group_partition(record.key or b"")
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DamagedBatch(f"the group record at offset {record.offset} is damaged inside") from error
    if group_partition is None or (record.value and not _is_known(record.value)):
        return None
    return OffsetRecord(record.offset, group_partition, record.value or None)


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
    """Offset, leader epoch, metadata; only brokers use the times behind."""
    (version,) = _I16.unpack_from(value)
    if version < _EPOCH_VERSION:
        (offset,) = _OFFSET.unpack_from(value, _I16.size)
        return offset, NO_EPOCH, _text(value, _I16.size + _OFFSET.size)[0]
    offset, epoch = _OFFSET_AND_EPOCH.unpack_from(value, _I16.size)
    position = _I16.size + _OFFSET_AND_EPOCH.size
    metadata = _compact_text(value, position) if version >= _FLEXIBLE_VERSION else _text(value, position)[0]
    return offset, epoch, metadata


def _text(data: bytes, position: int) -> tuple[str, int]:
    """A text after its 16-bit length, and the end position. Null reads as empty."""
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
        raise IndexError(f"{length} bytes needed at {start} of {len(data)}")
    return data[start : start + length].decode()


class GroupFold:
    """The commits of the groups in one partition of `__consumer_offsets`. Feed the batches in offset order."""

    def __init__(self, *, until_ms: int | None = None) -> None:
        """`until_ms`: records with a later time do not count."""
        self._until_ms = until_ms
        self._commits: dict[GroupPartition, OffsetRecord] = {}
        self._pending: dict[int, dict[GroupPartition, OffsetRecord]] = {}

    def feed(self, data: Buffer, headers: Iterable[BatchHeader]) -> None:
        """Add the next batches. Raises `DamagedBatch`."""
        for header in headers:
            if header.is_control:
                self._end_transaction(header.view(data), header)
            elif header.record_count:
                self._take(header.view(data), header)

    def table(self) -> dict[str, GroupOffsets]:
        """The groups by name, after the last batch; open transactions do not count. Raises `DamagedBatch`.

        A group lives in one partition of `__consumer_offsets` only: the tables of several partitions join without a
        conflict.
        """
        builders: dict[str, dict[str, TopicOffsetsBuilder]] = {}
        for group_partition, commit in self._commits.items():
            topics = builders.setdefault(group_partition.group, {})
            builder = topics.get(group_partition.topic) or topics.setdefault(
                group_partition.topic, TopicOffsetsBuilder(group_partition.topic)
            )
            builder.add(*commit.committed())
        return {
            group: GroupOffsets(group=group, topics=tuple(topics[name].build() for name in sorted(topics)))
            for group, topics in sorted(builders.items())
        }

    def _take(self, batch: memoryview, header: BatchHeader) -> None:
        for record in iterate(batch, header):
            if self._until_ms is not None and record.timestamp_ms > self._until_ms:
                continue
            parsed = parse_group_record(record)
            if parsed is None:  # the description of a group, or of an unknown version
                continue
            if parsed.value is None:
                self._remove(parsed.group_partition)
            elif header.is_transactional:
                self._pending.setdefault(header.producer_id, {})[parsed.group_partition] = parsed
            else:
                self._commits[parsed.group_partition] = parsed

    def _remove(self, group_partition: GroupPartition) -> None:
        self._commits.pop(group_partition, None)
        for pending in self._pending.values():
            pending.pop(group_partition, None)

    def _end_transaction(self, batch: memoryview, header: BatchHeader) -> None:
        marker = parse_control_marker(batch, header)
        if marker is None or self._is_late(header):
            return
        pending = self._pending.pop(header.producer_id, {})
        for group_partition, commit in pending.items() if marker.kind == "commit" else ():
            current = self._commits.get(group_partition)
            if current is None or current.position < commit.position:
                self._commits[group_partition] = commit

    def _is_late(self, header: BatchHeader) -> bool:
        return self._until_ms is not None and header.max_timestamp_ms > self._until_ms
