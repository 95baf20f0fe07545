"""Decodes blocks: of the two schemas written by offsite far faster than fastavro, the mirror of `encoding`; of foreign
schemas that resolve to offsite's by fastavro, in another process (`foreign`).

Reads everything allowed by Avro in offsite's schemas, beyond offsite's own output. Format: Avro 1.11 specification,
binary encoding.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from typing import Any

from offsite.archives.avro.encoding import BARE_TAILS, NO_HEADERS
from offsite.archives.decoding_process import DecodingEnded, decode_apart
from offsite.log.buffer import Buffer
from offsite.log.range import TopicPartition
from offsite.log.records.record import CREATE_TIME, LOG_APPEND_TIME, Record, RecordHeaders
from offsite.log.varint import PADDING, varint_reader, zigzag

FIRST, SECOND = 0, 2
"""The first bytes of a union."""
MAX_HEADERS = 1_000_000
"""Of all records in a block: two bytes become a hundred."""
MAX_FOREIGN_RECORDS = 250_000
"""Of a block: the parent holds them all."""
_NEEDED = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_MAX_NAMED, _MAX_NAME = 12, 40
_MILLISECONDS = "timestamp-millis"
_Tail = tuple[RecordHeaders, bool, int]
"""The part behind a record's value: headers, whether the value is null, timestamp type."""
_FULL_BARE: dict[bytes, _Tail] = {tail: ((), is_null, kind) for (is_null, kind), tail in BARE_TAILS.items()}
_PLAIN_BARE: dict[bytes, _Tail] = {NO_HEADERS: ((), False, CREATE_TIME)}


class BlockFields:
    """Reads Avro values in a plain block, from a position to the next.

    `data`: the block of `size` bytes, with padding for `long`. Every length in the data is checked against the block
    before further reading: damaged bytes raise `ValueError`, never a worse error.
    """

    def __init__(self, block: Buffer) -> None:
        self.data, self.size = b"".join((block, PADDING)), len(block)
        self.long = varint_reader()
        self._room = MAX_HEADERS

    def blob(self, position: int) -> tuple[bytes, int]:
        length, start = self.long(self.data, position)
        end = start + length
        if not start <= end <= self.size:
            raise ValueError(f"{length} bytes at byte {start} of {self.size}")
        return self.data[start:end], end

    def is_second(self, position: int) -> bool:
        """Whether a union of two holds the second type; a byte says the type."""
        branch = self.data[position]
        if branch not in (FIRST, SECOND):
            raise ValueError(f"no branch of two at byte {position}")
        return branch == SECOND

    def headers(self, position: int, *, are_exact: bool) -> tuple[list[tuple[str, bytes | None]], int]:
        """Read the entries of the map `headers`, or, if `are_exact`, the items of `headerList`; a single loop, because
        the loop is hot."""
        data, size, long = self.data, self.size, self.long
        errors = "surrogateescape" if are_exact else "strict"
        pairs: list[tuple[str, bytes | None]] = []
        count, at = long(data, position)
        while count != 0:
            if count < 0:  # the size of the entries follows
                _, at = long(data, at)
            self._room -= abs(count)
            if self._room < 0:
                raise ValueError(f"more than {MAX_HEADERS} headers in a block")
            for _ in range(abs(count)):
                length, start = long(data, at)
                at = start + length
                if not start <= at <= size:
                    raise ValueError(f"a header's name of {length} bytes at byte {start} of {size}")
                name = data[start:at].decode("utf-8", errors)
                value = None
                is_null = are_exact and not self.is_second(at)
                at += are_exact
                if not is_null:
                    length, start = long(data, at)
                    at = start + length
                    if not start <= at <= size:
                        raise ValueError(f"a header of {length} bytes at byte {start} of {size}")
                    value = data[start:at]
                pairs.append((name, value))
            count, at = long(data, at)
        return pairs, at


class OwnDecoding:
    """Decodes the records of a partition. `is_plain`: the records were written with the plain schema."""

    def __init__(self, of: TopicPartition, *, is_plain: bool) -> None:
        name = of.topic.encode("utf-8")
        self._of, self._head = of, zigzag(len(name)) + name + zigzag(of.partition)
        self._bare, self._read_tail = (_PLAIN_BARE, _plain_tail) if is_plain else (_FULL_BARE, _full_tail)

    def decode(self, block: Buffer, records: int) -> list[Record]:
        """Decode all `records` of a plain block. Raises `ValueError` unless the block holds exactly `records` records.

        A single loop, without calls for the common case: calls would cost more than the work.
        """
        fields = BlockFields(block)
        data, size, long, head, bare = fields.data, fields.size, fields.long, self._head, self._bare
        head_bytes, bare_bytes = len(head), len(next(iter(bare)))
        new, kind, position = tuple.__new__, Record, 0
        decoded: list[Record] = []
        for _ in range(records):
            if not data.startswith(head, position):
                raise ValueError(_strangeness(fields, position, self._of))
            offset, at = long(data, position + head_bytes)
            time_ms, at = long(data, at)
            if data[at] == FIRST:
                length, start = long(data, at + 1)
                at = start + length
                if not start <= at <= size:
                    raise ValueError(f"a key of {length} bytes at byte {start} of {size}")
                key = data[start:at]
            elif data[at] == SECOND:
                key, at = None, at + 1
            else:
                raise ValueError(f"no branch of the key at byte {at}")
            length, start = long(data, at)
            at = start + length
            if not start <= at <= size:
                raise ValueError(f"a value of {length} bytes at byte {start} of {size}")
            position = at + bare_bytes
            tail = bare.get(data[at:position])
            if tail is None:
                tail, position = self._read_tail(fields, at)
            headers, is_null, time_kind = tail
            value = None if is_null else data[start:at]
            decoded.append(new(kind, (offset, time_ms, time_kind, key, value, headers)))
        if position != size:
            raise ValueError(f"{size - position} bytes after the last of {records} records")
        return decoded


def _strangeness(fields: BlockFields, at: int, of: TopicPartition) -> str:
    """Describe a record with an unexpected beginning."""
    if at >= fields.size:
        return f"it ends before the last of its records, at byte {at}"
    topic, at = fields.blob(at)
    partition, at = fields.long(fields.data, at)
    offset, _ = fields.long(fields.data, at)
    return f"offset {offset} is of {topic.decode('utf-8')}/{partition}, not of {of}"


def _plain_tail(fields: BlockFields, at: int) -> tuple[_Tail, int]:
    headers, at = _header_map(fields, at)
    return (headers, False, CREATE_TIME), at


def _full_tail(fields: BlockFields, at: int) -> tuple[_Tail, int]:
    headers, at = _header_map(fields, at)
    is_null, is_append_time, has_list = fields.data[at] != 0, fields.is_second(at + 1), fields.is_second(at + 2)
    at += 3
    if has_list:
        exact, at = fields.headers(at, are_exact=True)
        headers = tuple(exact)
    return (headers, is_null, LOG_APPEND_TIME if is_append_time else CREATE_TIME), at


def _header_map(fields: BlockFields, at: int) -> tuple[RecordHeaders, int]:
    if fields.is_second(at):
        return (), at + 1
    entries, at = fields.headers(at + 1, are_exact=False)
    return tuple(entries if len(entries) < 2 else dict(entries).items()), at


class OtherSchema(ValueError):
    """The schema is valid but does not describe Kafka records, or the records belong elsewhere."""


class ForeignBlocks:
    """Decodes the blocks of a file, in the order of calls. `decode`: a generator function (`module:function`), which
    yields once when it has read the schema in `args`. Raises `ValueError` for an unreadable schema."""

    def __init__(self, decode: str, *args: object) -> None:
        self._function, self._args = decode, args
        self._blocks = list[tuple[pickle.PickleBuffer, int]]()
        try:
            self._items = self._begun()
        except DecodingEnded as error:
            if not error.was_shared:
                raise
            self._items = self._begun(alone=True)

    def decode(self, block: Buffer, records: int) -> list[Any]:
        """Return what the generator makes of a plain block with so many records. Raises `ValueError` for a bad block,
        and `DecodingEnded` when no further block can be decoded."""
        if records > MAX_FOREIGN_RECORDS or records > len(block):
            raise ValueError(f"{records} records in {len(block)} bytes, at most {MAX_FOREIGN_RECORDS} are read")
        try:
            result = self._next(block, records)
        except DecodingEnded as error:
            if not error.was_shared:
                raise
            self._items = self._begun(alone=True)
            result = self._next(block, records)
        if isinstance(result, ValueError):
            try:
                raise result
            finally:
                del result  # else it and its traceback keep each other, and the process
        return result

    def _begun(self, *, alone: bool = False) -> Iterator[Any]:
        """Begin, up to the first block."""
        self._blocks.clear()
        items = decode_apart(self._function, partial(_pop, self._blocks), *self._args, alone=alone)
        next(items)
        return items

    def _next(self, block: Buffer, records: int) -> list[Any] | ValueError:
        self._blocks.append((pickle.PickleBuffer(block), records))
        result: list[Any] | ValueError = next(self._items)
        return result


def _pop(blocks: list[tuple[pickle.PickleBuffer, int]], _: object) -> tuple[pickle.PickleBuffer, int]:
    """No method: a circle of references would keep the process until Python collects its garbage."""
    return blocks.pop()


class ForeignDecoding:
    """Decodes the records of a partition, in another process. Raises `ValueError` unless `writer_schema` is a
    schema, and `OtherSchema` for a schema of something else."""

    def __init__(self, of: TopicPartition, writer_schema: object) -> None:
        self._blocks = ForeignBlocks("offsite.archives.avro.foreign:decode_records", writer_schema, of)
        _check_fields(writer_schema)

    def decode(self, block: Buffer, records: int) -> list[Record]:
        """Decode all `records` of a plain block. Raises `ValueError` unless the block holds exactly `records` records,
        `OtherSchema`, and `DecodingEnded`."""
        return list(map(Record._make, self._blocks.decode(block, records)))


def _check_fields(writer_schema: object) -> None:
    declared = writer_schema.get("fields") if isinstance(writer_schema, dict) else None
    fields = [field for field in declared if isinstance(field, dict)] if isinstance(declared, list) else []
    names = [str(field.get("name")) for field in fields]
    if missing := [name for name in _NEEDED if name not in names]:
        present = ", ".join(name[:_MAX_NAME] for name in names[:_MAX_NAMED]) or "none"
        raise OtherSchema(f"its schema has no field {missing[0]!r}; it has {present}")
    for logical in _logical_types(fields[names.index("timestamp")].get("type")):
        if logical != _MILLISECONDS:  # Spark writes times in microseconds
            raise OtherSchema(f"its timestamp is of the logical type {logical[:_MAX_NAME]!r}, not {_MILLISECONDS!r}")


def _logical_types(kind: object) -> Iterator[str]:
    for branch in kind if isinstance(kind, list) else [kind]:
        if isinstance(branch, dict) and "logicalType" in branch:
            yield str(branch["logicalType"])
