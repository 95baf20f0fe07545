"""Blocks of the two schemas that offsite writes, into records: the mirror of `encoding`, far faster than fastavro.

It reads all that Avro allows in these schemas, not just what offsite writes.
"""

from __future__ import annotations

from typing import NamedTuple

from offsite.archives.avro.block_fields import BlockFields
from offsite.archives.avro.encoding import BARE_TAILS, NO_HEADERS
from offsite.archives.avro.varints import zigzag
from offsite.log.buffer import Buffer
from offsite.log.range import TopicPartition
from offsite.log.record import CREATE_TIME, LOG_APPEND_TIME, Record, RecordHeaders

__all__ = ["OwnDecoding"]

_BYTES, _NULL = 0, 1  # the key's branches


class _Tail(NamedTuple):
    """What stands behind a record's value."""

    headers: RecordHeaders
    is_null: bool
    timestamp_type: int


class OwnDecoding:
    """Of the records of one partition. `is_plain`: they were written with the plain schema."""

    def __init__(self, of: TopicPartition, *, is_plain: bool) -> None:
        name = of.topic.encode("utf-8")
        self._of, self._head = of, zigzag(len(name)) + name + zigzag(of.partition)
        self._bare, self._read_tail = (_PLAIN_BARE, _plain_tail) if is_plain else (_FULL_BARE, _full_tail)

    def decode(self, block: Buffer, records: int) -> list[Record]:
        """All `records` of a plain block. Raises `ValueError` if it does not hold exactly these.

        One loop, without calls for what nearly all records are: they would cost more than the work.
        """
        fields = BlockFields(block)
        data, size, long, head, bare = fields.data, fields.size, fields.read_long, self._head, self._bare
        head_bytes, bare_bytes = len(head), len(next(iter(bare)))
        new, kind, position = tuple.__new__, Record, 0
        decoded: list[Record] = []
        for _ in range(records):
            if not data.startswith(head, position):
                raise ValueError(_strangeness(fields, position, self._of))
            offset, at = long(data, position + head_bytes)
            time_ms, at = long(data, at)
            key_branch, at = long(data, at)
            key = None
            if key_branch != _NULL:
                length, start = long(data, at)
                at = start + length
                if key_branch != _BYTES or not start <= at <= size:
                    raise ValueError(f"a key of branch {key_branch} and {length} bytes at byte {start} of {size}")
                key = data[start:at]
            length, start = long(data, at)
            at = start + length
            if not start <= at <= size:
                raise ValueError(f"a value of {length} bytes at byte {start} of {size}")
            position = at + bare_bytes
            tail = bare.get(data[at:position])
            if tail is None:
                fields.position = at
                tail = self._read_tail(fields)
                position = fields.position
            value = None if tail.is_null else data[start:at]
            decoded.append(new(kind, (offset, time_ms, tail.timestamp_type, key, value, tail.headers)))
        if position != size:
            raise ValueError(f"{size - position} bytes after the last of {records} records")
        return decoded


def _strangeness(fields: BlockFields, position: int, of: TopicPartition) -> str:
    """Of a record that does not begin as those of the partition do."""
    fields.position = position
    topic, partition, offset = fields.blob().decode("utf-8"), fields.long(), fields.long()
    return f"offset {offset} is of {topic}/{partition}, not of {of}"


def _full_tail(fields: BlockFields) -> _Tail:
    headers = _header_map(fields)
    is_null, timestamp_type = fields.boolean(), fields.long()
    if timestamp_type not in (CREATE_TIME, LOG_APPEND_TIME):
        raise ValueError(f"timestampType {timestamp_type} before byte {fields.position}")
    has_list = not fields.is_first_branch()
    return _Tail(_header_list(fields) if has_list else headers, is_null, timestamp_type)


def _plain_tail(fields: BlockFields) -> _Tail:
    return _Tail(_header_map(fields), is_null=False, timestamp_type=CREATE_TIME)


def _header_map(fields: BlockFields) -> RecordHeaders:
    if not fields.is_first_branch():
        return ()
    return tuple({fields.blob().decode("utf-8"): fields.blob() for _ in fields.items()}.items())


def _header_list(fields: BlockFields) -> RecordHeaders:
    return tuple(
        (fields.blob().decode("utf-8", "surrogateescape"), None if fields.is_first_branch() else fields.blob())
        for _ in fields.items()
    )


_FULL_BARE = {tail: _Tail((), is_null, kind) for (is_null, kind), tail in BARE_TAILS.items()}
_PLAIN_BARE = {NO_HEADERS: _Tail((), is_null=False, timestamp_type=CREATE_TIME)}
