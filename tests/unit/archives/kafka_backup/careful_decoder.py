"""A second decoder of one record, to hold the quick one against: it says what is wrong, or how many bytes lack."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from offsite.archives.kafka_backup.segments.record import (
    LEAST_HEADER_BYTES,
    MAX_HEADERS,
    NULL_TIME_TYPE,
    Malformed,
    decode_run,
)
from offsite.log.records.record import CREATE_TIME, LOG_APPEND_TIME, Record

MIN_RECORD_BYTES = 24

_HEAD = struct.Struct(">qi")
_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">i")


class Short(Exception):
    """The record, if it is one, goes on for at least `needed_bytes` from its start."""

    def __init__(self, needed_bytes: int) -> None:
        super().__init__(needed_bytes)
        self.needed_bytes = needed_bytes


def decode_record(data: bytes, at: int = 0) -> tuple[Record, int]:
    """The record at `at` and where it ends. Raises `Malformed` or `Short`."""
    end = _record_end(data, at)
    return decode_run(data[at:end]).records[0], end


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
