"""Records as kafka-backup lays them out, back to back: no checksum, no compression, everything big-endian. Pure.

    offset i64 | timestamp type i32 | [timestamp i64, of types 0 and 1] | key | value | header count i32 | headers
    key, value, header value: length i32 (-1 null) and bytes · header: name length i32, name, value

Timestamp types: -1 none, 0 CreateTime, 1 LogAppendTime, -2 CreateTime of a record that was given none.
Source: "Record File" in the architecture page of itadventurer/kafka-backup.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from offsite.log.record import CREATE_TIME, LOG_APPEND_TIME, Record, RecordHeaders
from offsite.model.errors import NotRepresentable

MIN_RECORD_BYTES = 24
NO_TIME_TYPE, NULL_TIME_TYPE = -1, -2

_UNTIMED = struct.Struct(">qii")
_TIMED = struct.Struct(">qiqi")
_HEAD = struct.Struct(">qi")
_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
LEAST_HEADER_BYTES = 2 * _LENGTH.size
MAX_HEADERS = 1_000_000
"""Of one record: eight bytes become two hundred."""
_NO_HEADERS = _LENGTH.pack(0)
_NULL = _LENGTH.pack(-1)


class Malformed(Exception):
    """No bytes that follow could make this a record."""


class Torn(Malformed):
    """It begins as a record does, and goes on beyond where the bytes end."""


class Short(Exception):
    """The record, if it is one, goes on for at least `needed_bytes` from its start."""

    def __init__(self, needed_bytes: int) -> None:
        super().__init__(needed_bytes)
        self.needed_bytes = needed_bytes


@dataclass(frozen=True, slots=True)
class Run:
    """Whole records that lie back to back; `ends[n]` is where record n ends, in the bytes they were read from."""

    records: list[Record]
    ends: list[int]


def encode_record(record: Record) -> bytes:
    """The bytes of one record. A CreateTime record with time -1 is written as type -2, as kafka-backup does.

    Raises `NotRepresentable` for a time without a type.
    """
    offset, timestamp_ms, kind, key, value, headers = record
    key_bytes = -1 if key is None else len(key)
    if timestamp_ms == -1 and kind != LOG_APPEND_TIME:
        head = _UNTIMED.pack(offset, NULL_TIME_TYPE if kind == CREATE_TIME else NO_TIME_TYPE, key_bytes)
    elif CREATE_TIME <= kind <= LOG_APPEND_TIME:
        head = _TIMED.pack(offset, kind, timestamp_ms, key_bytes)
    else:
        raise NotRepresentable(f"offset {offset}: kafka-backup has no place for a time of type {kind}")
    tail = _encode_headers(headers) if headers else _NO_HEADERS
    if value is None:
        return b"".join((head, key or b"", _NULL, tail))
    return b"".join((head, key or b"", _LENGTH.pack(len(value)), value, tail))


def decode_run(data: bytes, at: int = 0) -> Run:
    """As many whole records as lie back to back from `at`; what stopped it is for `decode_record` to say.

    The hot path: one pass, written out, and every length is checked against the bytes that are there.
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
    except (struct.error, Malformed, Short):
        pass  # the caller sees that the run ends early
    return Run(records, ends)


def decode_record(data: bytes, at: int = 0) -> tuple[Record, int]:
    """The record at `at` and where it ends. Raises `Malformed` or `Short`: it says what `decode_run` met."""
    end = _record_end(data, at)
    return decode_run(data[at:end]).records[0], end


def has_valid_names(record: Record) -> bool:
    """Whether the names of its headers are UTF-8, as those of all clients are."""
    return all(_is_utf8(name) for name, _ in record.headers)


def offsets_of(records: Sequence[Record]) -> list[int]:
    return [record[0] for record in records]


@dataclass(slots=True)
class _Cursor:
    """Steps over what may be a record, and says when bytes lack or cannot be right."""

    data: bytes
    start: int
    at: int

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        self.need(layout.size)
        self.at += layout.size
        return layout.unpack_from(self.data, self.at - layout.size)

    def skip(self, what: str, *, lowest: int = -1) -> None:
        """A length and that many bytes."""
        (size_bytes,) = self.take(_LENGTH)
        if size_bytes < lowest:
            raise Malformed(f"a {what} of {size_bytes} bytes")
        self.need(max(size_bytes, 0))
        self.at += max(size_bytes, 0)

    def need(self, size_bytes: int) -> None:
        if self.at + size_bytes > len(self.data):
            raise Short(max(self.at + size_bytes - self.start, MIN_RECORD_BYTES))


def _record_end(data: bytes, at: int) -> int:
    cursor = _Cursor(data, at, at)
    offset, time_type = cursor.take(_HEAD)
    if offset < 0:
        raise Malformed(f"offset {offset}")
    if not NULL_TIME_TYPE <= time_type <= LOG_APPEND_TIME:
        raise Malformed(f"timestamp type {time_type}")
    if time_type >= CREATE_TIME:
        cursor.take(_TIME)
    cursor.skip("key")
    cursor.skip("value")
    (header_count,) = cursor.take(_LENGTH)
    if not 0 <= header_count <= MAX_HEADERS:
        raise Malformed(f"{header_count} headers")
    cursor.need(LEAST_HEADER_BYTES * header_count)
    for _ in range(header_count):
        cursor.skip("header name", lowest=0)
        cursor.skip("header value")
    return cursor.at


def _headers_at(data: bytes, at: int, count: int) -> tuple[RecordHeaders, int]:
    if not 0 <= count <= MAX_HEADERS:
        raise Malformed
    if LEAST_HEADER_BYTES * count > len(data) - at:
        raise Short(LEAST_HEADER_BYTES * count)
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
            raise Short(at)
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


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
