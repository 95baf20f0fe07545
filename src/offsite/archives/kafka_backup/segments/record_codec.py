"""Encodes records in kafka-backup's layout, back to back: no checksum, no compression, everything big-endian. Pure.

    offset i64 | timestamp type i32 | [timestamp i64, of types 0 and 1] | key | value | header count i32 | headers
    key, value, header value: length i32 (-1 null) and bytes · header: name length i32, name, value

Timestamp types: -1 none, 0 CreateTime, 1 LogAppendTime, -2 CreateTime of a record sent without a time. Source: "Record
File" in the architecture page of itadventurer/kafka-backup.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from offsite.log.records.record import CREATE_TIME, LOG_APPEND_TIME, Record, RecordHeaders
from offsite.model.errors import NotRepresentable

NO_TIME_TYPE, NULL_TIME_TYPE = -1, -2

_UNTIMED = struct.Struct(">qii")
_TIMED = struct.Struct(">qiqi")
_LENGTH = struct.Struct(">i")
LEAST_HEADER_BYTES = 2 * _LENGTH.size
MAX_HEADERS = 1_000_000
"""Per record: eight bytes become two hundred."""
_NO_HEADERS = _LENGTH.pack(0)
_NULL = _LENGTH.pack(-1)


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
