"""Records in columns, cut into groups: how the writers of indexed archives take them.

Where a group ends depends on the records alone, never on how many were handed over at once, so that writing a range
again gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter, lt
from typing import NamedTuple

from offsite.log.records.record import Record, RecordHeaders
from offsite.model.check import check

__all__ = ["GROUP_BYTES", "GROUP_RECORDS", "RecordColumns", "RecordGroups"]

GROUP_RECORDS = 512
GROUP_BYTES = 4 << 20
"""A group ends with the record that brings its keys, values and header values to this size: it lies in memory."""

_KEY, _VALUE = itemgetter(3), itemgetter(4)


class RecordColumns(NamedTuple):
    """Records by column: at least one record, in rising order of offsets."""

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

    def size_bytes(self) -> int:
        """The bytes of keys, values and header values."""
        return _total_bytes(self.keys) + _total_bytes(self.values) + self.header_bytes()

    def header_bytes(self) -> int:
        return sum(len(value) for each in self.headers for _, value in each if value) if any(self.headers) else 0


class RecordGroups:
    """Takes records as they come, and hands them out in groups."""

    def __init__(self) -> None:
        self._waiting: list[Record] = []
        self._waiting_bytes = 0  # of keys and values, which is enough to see that a group may be full

    def add(self, records: Sequence[Record]) -> Iterator[RecordColumns]:
        """The groups that are full now."""
        self._waiting += records
        self._waiting_bytes += _blob_bytes(records)
        if len(self._waiting) >= GROUP_RECORDS or self._waiting_bytes >= GROUP_BYTES:
            yield from self._full()

    def rest(self) -> Iterator[RecordColumns]:
        """The last groups, of which one need not be full."""
        if self._waiting:
            yield from self._full()
        if self._waiting:
            yield RecordColumns.of(self._waiting)
            self._waiting, self._waiting_bytes = [], 0

    def _full(self) -> Iterator[RecordColumns]:
        columns, start = RecordColumns.of(self._waiting), 0
        for end in _group_ends(columns, self._waiting_bytes + columns.header_bytes()):
            yield columns.part(start, end)
            start = end
        self._waiting = self._waiting[start:]
        self._waiting_bytes = _blob_bytes(self._waiting)


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


def _blob_bytes(records: Sequence[Record]) -> int:
    return _total_bytes(map(_KEY, records)) + _total_bytes(map(_VALUE, records))


def _total_bytes(blobs: Iterable[bytes | None]) -> int:
    return sum(map(len, filter(None, blobs)))
