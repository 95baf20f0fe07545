"""Records in columns, cut into groups: how the writers of indexed archives take them.

Where a group ends depends on the records alone, never on how many were handed over at once, so that writing a range
again gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import add, lt
from typing import NamedTuple, cast

from offsite.log.record import Record, RecordHeaders
from offsite.model.check import check

__all__ = ["GROUP_BYTES", "GROUP_RECORDS", "RecordColumns", "RecordGroups"]

GROUP_RECORDS = 512
GROUP_BYTES = 4 << 20
"""A group ends with the record that brings its keys, values and header values to this size: it lies in memory."""


class RecordColumns(NamedTuple):
    """At least one record; offsets rise."""

    offsets: tuple[int, ...]
    timestamps_ms: tuple[int, ...]
    timestamp_types: tuple[int, ...]
    keys: tuple[bytes | None, ...]
    values: tuple[bytes | None, ...]
    headers: tuple[RecordHeaders, ...]

    @classmethod
    def of(cls, records: Sequence[Record]) -> RecordColumns:
        columns = cls(*zip(*records, strict=True))
        check(all(map(lt, columns.offsets, columns.offsets[1:])), f"offsets fall after {columns.offsets[0]}")
        return columns

    def part(self, start: int, end: int) -> RecordColumns:
        return RecordColumns._make(column[start:end] for column in self)

    def with_more(self, more: RecordColumns) -> RecordColumns:
        return RecordColumns._make(map(add, self, more))

    def size_bytes(self) -> int:
        """Of keys, values and header values."""
        headers = sum(len(value) for each in self.headers for _, value in each if value) if any(self.headers) else 0
        return _total_bytes(self.keys) + _total_bytes(self.values) + headers


_NONE = RecordColumns((), (), (), (), (), ())


class RecordGroups:
    """Takes records as they come, and hands them out in groups."""

    def __init__(self) -> None:
        self._waiting, self._waiting_bytes = _NONE, 0

    def add(self, records: Sequence[Record]) -> Iterator[RecordColumns]:
        """The groups that are full now."""
        if not records:
            return
        more = RecordColumns.of(records)
        columns = self._waiting.with_more(more)
        size_bytes = self._waiting_bytes + more.size_bytes()
        start = 0
        for end in _group_ends(columns, size_bytes):
            yield columns.part(start, end)
            start = end
        self._waiting = columns.part(start, len(columns.offsets))
        self._waiting_bytes = self._waiting.size_bytes() if start else size_bytes

    def rest(self) -> Iterator[RecordColumns]:
        """The last group, if there is one."""
        if self._waiting.offsets:
            yield self._waiting
            self._waiting, self._waiting_bytes = _NONE, 0


def _group_ends(columns: RecordColumns, size_bytes: int) -> Sequence[int]:
    """Where full groups end."""
    records = len(columns.offsets)
    if size_bytes < GROUP_BYTES:  # then no part of them can be too large
        return range(GROUP_RECORDS, records + 1, GROUP_RECORDS)
    ends, count, group_bytes = [], 0, 0
    for position in range(records):
        count, group_bytes = count + 1, group_bytes + columns.part(position, position + 1).size_bytes()
        if count == GROUP_RECORDS or group_bytes >= GROUP_BYTES:
            ends.append(position + 1)
            count = group_bytes = 0
    return ends


def _total_bytes(blobs: Sequence[bytes | None]) -> int:
    present = cast("Sequence[bytes]", blobs) if None not in blobs else filter(None, blobs)
    return sum(map(len, present))
