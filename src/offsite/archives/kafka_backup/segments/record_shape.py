"""Finds the end of a record from lengths alone: contents are skipped, not read.

Behind damage any bytes may look like the head of a record with a hundred MiB, and every twelfth byte may be a head.
Therefore a look costs a few small reads, and `Effort` bounds the total cost.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from offsite.archives.kafka_backup.segments.record_codec import (
    LEAST_HEADER_BYTES,
    MAX_HEADERS,
    NULL_TIME_TYPE,
    Malformed,
    Torn,
)
from offsite.log.records.record import CREATE_TIME, LOG_APPEND_TIME
from offsite.model.bounds import MAX_RECORD_BYTES

__all__ = ["Effort", "Exhausted", "RecordShape", "shape_at"]

_LOOK_BYTES = 4 << 10
_HEAD, _LENGTH = struct.Struct(">qi"), struct.Struct(">i")
_TIME_BYTES = 8
_LOOK_COST, _HEADER_COST = 50, 3

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
        are_valid &= _is_utf8(cursor.take(cursor.length("header name", lowest=0)))
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


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
