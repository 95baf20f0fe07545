"""Records in kafka-backup's layout, back to back: no checksum, no compression, everything big-endian. Encodes and
decodes them, and finds the end of a record from lengths alone. Pure.

    offset i64 | timestamp type i32 | [timestamp i64, of types 0 and 1] | key | value | header count i32 | headers
    key, value, header value: length i32 (-1 null) and bytes · header: name length i32, name, value

Timestamp types: -1 none, 0 CreateTime, 1 LogAppendTime, -2 CreateTime of a record sent without a time. Source: "Record
File" in the architecture page of itadventurer/kafka-backup. Behind damage any bytes may look like the head of a record
with a hundred MiB, and every twelfth byte may be a head. Therefore a look costs a few small reads, and `Effort` bounds
the total cost.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from offsite.log.records.record import CREATE_TIME, LOG_APPEND_TIME, Record, RecordHeaders
from offsite.model.bounds import MAX_RECORD_BYTES
from offsite.model.errors import NotRepresentable
from offsite.model.untrusted.text import is_utf8

NO_TIME_TYPE, NULL_TIME_TYPE = -1, -2

_UNTIMED = struct.Struct(">qii")
_TIMED = struct.Struct(">qiqi")
_LENGTH = struct.Struct(">i")
LEAST_HEADER_BYTES = 2 * _LENGTH.size
MAX_HEADERS = 1_000_000
"""Per record: eight bytes become two hundred."""
_NO_HEADERS = _LENGTH.pack(0)
_NULL = _LENGTH.pack(-1)
_LOOK_BYTES = 4 << 10
_HEAD = struct.Struct(">qi")
_TIME_BYTES = 8
_LOOK_COST, _HEADER_COST = 50, 3


class Malformed(Exception):
    """No following bytes could complete a record."""


class Torn(Malformed):
    """The bytes begin like a record and end too early."""


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Complete adjoining records; `ends[n]`: end of record n in the read bytes."""

    records: list[Record]
    ends: list[int]


def encode_record(record: Record) -> bytes:
    """Encode a record. A CreateTime record with time -1 becomes type -2, as in kafka-backup.

    Raises `NotRepresentable` for a time without a type.
    """
    offset, timestamp_ms, kind, key, value, headers = record
    key_bytes = -1 if key is None else len(key)
    if timestamp_ms == -1 and kind != LOG_APPEND_TIME:
        head = _UNTIMED.pack(offset, NULL_TIME_TYPE if kind == CREATE_TIME else NO_TIME_TYPE, key_bytes)
    elif CREATE_TIME <= kind <= LOG_APPEND_TIME:
        head = _TIMED.pack(offset, kind, timestamp_ms, key_bytes)
    else:
        raise NotRepresentable(f"offset {offset}: kafka-backup cannot store a time of type {kind}")
    tail = _encode_headers(headers) if headers else _NO_HEADERS
    if value is None:
        return b"".join((head, key or b"", _NULL, tail))
    return b"".join((head, key or b"", _LENGTH.pack(len(value)), value, tail))


def decode_run(data: bytes, at: int = 0) -> RecordRun:
    """Decode the complete adjoining records from `at`; `read_shape` explains the stop.

    The hot path: a single, inlined pass; every length is checked against the existing bytes.
    """
    records: list[Record] = []
    ends: list[int] = []
    add_record, add_end = records.append, ends.append
    new, kind, size = tuple.__new__, Record, len(data)
    timed, length = _TIMED.unpack_from, _LENGTH.unpack_from
    try:
        while at < size:
            offset, time_type, timestamp_ms, key_bytes = timed(data, at)
            at += 24
            if time_type < CREATE_TIME or time_type > LOG_APPEND_TIME:
                offset, time_type, key_bytes = _UNTIMED.unpack_from(data, at - 24)
                time_type, timestamp_ms = _untimed_type(time_type), -1
                at -= 8
            key = None
            if key_bytes >= 0:
                start, at = at, at + key_bytes
                key = data[start:at]
            (value_bytes,) = length(data, at)
            at += 4
            value = None
            if value_bytes >= 0:
                start, at = at, at + value_bytes
                value = data[start:at]
            (header_count,) = length(data, at)
            at += 4
            headers: RecordHeaders = ()
            if header_count:
                headers, at = _headers_at(data, at, header_count)
            if offset < 0 or key_bytes < -1 or value_bytes < -1:
                break
            add_record(new(kind, (offset, timestamp_ms, time_type, key, value, headers)))
            add_end(at)
    except (struct.error, Malformed):
        pass  # the caller sees that the run ends early
    return RecordRun(records, ends)


def offsets_of(records: Sequence[Record]) -> list[int]:
    return [record[0] for record in records]


def _headers_at(data: bytes, at: int, count: int) -> tuple[RecordHeaders, int]:
    if not 0 <= count <= MAX_HEADERS:
        raise Malformed
    if LEAST_HEADER_BYTES * count > len(data) - at:
        raise Torn
    headers = []
    for _ in range(count):
        (name_bytes,) = _LENGTH.unpack_from(data, at)
        at += 4
        name = str(data[at : at + name_bytes], "utf-8", "surrogateescape")
        at += name_bytes
        (value_bytes,) = _LENGTH.unpack_from(data, at)
        at += 4
        if name_bytes < 0 or value_bytes < -1:
            raise Malformed
        value = None if value_bytes == -1 else data[at : at + value_bytes]
        at += max(value_bytes, 0)
        if at > len(data):
            raise Torn
        headers.append((name, value))
    return tuple(headers), at


def _untimed_type(time_type: int) -> int:
    if time_type == NULL_TIME_TYPE:
        return CREATE_TIME
    if time_type != NO_TIME_TYPE:
        raise Malformed
    return NO_TIME_TYPE


def _encode_headers(headers: RecordHeaders) -> bytes:
    parts = [_LENGTH.pack(len(headers))]
    for name, value in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        parts += (_LENGTH.pack(len(encoded)), encoded)
        parts += (_NULL,) if value is None else (_LENGTH.pack(len(value)), value)
    return b"".join(parts)


Read = Callable[[int, int], bytes]
"""Returns bytes `[start, end)` of a file."""


class Exhausted(Exception):
    """The damage has no end: the rest is not examined."""


@dataclass(slots=True)
class Effort:
    """The budget for damage, in units of about a microsecond."""

    remaining_us: int

    @classmethod
    def for_bytes(cls, size_bytes: int) -> Effort:
        """Return a second and a half, and another half per MiB."""
        return cls(1_500_000 + size_bytes // 2)

    def spend(self, cost: int) -> None:
        self.remaining_us -= cost
        if self.remaining_us < 0:
            raise Exhausted


class RecordShape(NamedTuple):
    """The shape of a record, which ends at `end`. `has_valid_names`: header names are UTF-8, as from all clients."""

    offset: int
    end: int
    has_valid_names: bool


def shape_at(read: Read, start: int, end: int, effort: Effort | None = None) -> RecordShape:
    """Read the shape of the record at `start`. Raises `Malformed`, also for a record of more than `MAX_RECORD_BYTES`,
    `Torn` for a record beyond `end`, and `Exhausted` when `effort` is spent."""
    cursor = _Cursor(read, start, end, effort or Effort(1 << 62))
    offset, time_type = _HEAD.unpack(cursor.take(_HEAD.size))
    if offset < 0:
        raise Malformed(f"offset {offset}")
    if not NULL_TIME_TYPE <= time_type <= LOG_APPEND_TIME:
        raise Malformed(f"timestamp type {time_type}")
    if time_type >= CREATE_TIME:
        cursor.skip(_TIME_BYTES)
    cursor.skip(cursor.length("key"))
    cursor.skip(cursor.length("value"))
    return RecordShape(offset, *_past_headers(cursor))


def _past_headers(cursor: _Cursor) -> tuple[int, bool]:
    count = cursor.length("list of headers", lowest=0)
    if count > MAX_HEADERS:
        raise Malformed(f"{count} headers")
    cursor.need(LEAST_HEADER_BYTES * count)
    are_valid = True
    for _ in range(count):
        cursor.effort.spend(_HEADER_COST)
        are_valid &= is_utf8(cursor.take(cursor.length("header name", lowest=0)))
        cursor.skip(cursor.length("header value"))
    return cursor.at, are_valid


class _Cursor:
    def __init__(self, read: Read, start: int, end: int, effort: Effort) -> None:
        self._read, self._start, self._end, self.effort = read, start, end, effort
        self.at, self._data, self._data_at = start, b"", start

    def take(self, size_bytes: int) -> bytes:
        self.need(size_bytes)
        first = self.at - self._data_at
        if first + size_bytes > len(self._data):
            self.effort.spend(_LOOK_COST + size_bytes // 1024)
            self._data = self._read(self.at, min(self._end, self.at + max(size_bytes, _LOOK_BYTES)))
            self._data_at, first = self.at, 0
        self.at += size_bytes
        return self._data[first : first + size_bytes]

    def skip(self, size_bytes: int) -> None:
        self.need(size_bytes)
        self.at += max(size_bytes, 0)

    def length(self, noun: str, *, lowest: int = -1) -> int:
        (length,) = _LENGTH.unpack(self.take(_LENGTH.size))
        if length < lowest:
            raise Malformed(f"a {noun} of {length} bytes")
        return int(length)

    def need(self, size_bytes: int) -> None:
        if self.at + size_bytes > self._end:
            raise Torn(f"it would extend beyond byte {self._end}")
        if self.at + size_bytes - self._start > MAX_RECORD_BYTES:
            raise Malformed(f"it would have more than {MAX_RECORD_BYTES} bytes")
