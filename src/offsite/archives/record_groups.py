"""Cuts records into groups for the writers of indexed archives.

The end of a group depends on the records only, never on the size of calls, so writing a range again produces the same
bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from offsite.log.records.record_columns import RecordColumns, blob_bytes

__all__ = ["GROUP_BYTES", "GROUP_RECORDS", "RecordGroups"]

GROUP_RECORDS = 512
GROUP_BYTES = 4 << 20
"""A group ends with the record whose key, value and header values reach this total: a group lies in memory."""


class RecordGroups:
    """Takes records as they come, and returns groups of at least a record, in rising order of offsets."""

    def __init__(self) -> None:
        self._lists: list[list[Any]] = [[] for _ in RecordColumns._fields]
        self._waiting_bytes = 0  # of keys and values: enough to see that a group may be full

    def add(self, columns: RecordColumns) -> Iterator[RecordColumns]:
        """Add records; yield the full groups."""
        for waiting, more in zip(self._lists, columns, strict=True):
            waiting.extend(more)
        self._waiting_bytes += blob_bytes(columns.keys) + blob_bytes(columns.values)
        if len(self._lists[0]) >= GROUP_RECORDS or self._waiting_bytes >= GROUP_BYTES:
            yield from self._full()

    def rest(self) -> Iterator[RecordColumns]:
        """Yield the remaining groups; the last may be partial."""
        if self._lists[0]:
            yield from self._full()
        if self._lists[0]:
            yield RecordColumns._make(self._lists)
            self._lists, self._waiting_bytes = [[] for _ in RecordColumns._fields], 0

    def _full(self) -> Iterator[RecordColumns]:
        columns, start = RecordColumns._make(self._lists), 0
        columns.check_rise()
        for end in _group_ends(columns, self._waiting_bytes + columns.header_bytes()):
            yield columns.part(start, end)
            start = end
        if start:
            self._lists = [column[start:] for column in self._lists]
            remaining = RecordColumns._make(self._lists)
            self._waiting_bytes = blob_bytes(remaining.keys) + blob_bytes(remaining.values)


def _group_ends(columns: RecordColumns, size_bytes: int) -> Sequence[int]:
    """Return the ends of full groups."""
    records = len(columns.offsets)
    if size_bytes < GROUP_BYTES:  # no part can be too large
        return range(GROUP_RECORDS, records + 1, GROUP_RECORDS)
    ends, count, group_bytes = [], 0, 0
    for position in range(records):
        count, group_bytes = count + 1, group_bytes + columns.part(position, position + 1).size_bytes()
        if count == GROUP_RECORDS or group_bytes >= GROUP_BYTES:
            ends.append(position + 1)
            count = group_bytes = 0
    return ends
