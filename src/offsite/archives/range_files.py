"""One range of records into the files of an indexed archive: each is made in memory, written whole, and then counted.

Files that are written before an exception stay, and do not count: no index lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self

from blake3 import blake3

from offsite.archives.archive import FileReceipt, Written
from offsite.archives.archive_layout import ArchiveLayout
from offsite.archives.files import Files
from offsite.archives.losses import Losses
from offsite.archives.record_columns import RecordColumns, RecordGroups
from offsite.log.buffer import Buffer
from offsite.log.record import Record
from offsite.model.check import check

__all__ = ["FILE_BYTES", "FileEncoder", "RangeFiles", "content_hash"]

FILE_BYTES = 32 << 20
"""A file ends with the group of records that brings it to this size: it lies in memory until it is written."""


class FileEncoder(Protocol):
    """One file in the making."""

    @property
    def size_bytes(self) -> int:
        """How large the file is so far, about."""

    def add(self, columns: RecordColumns) -> None:
        """Raises `NotRepresentable`."""

    def close(self) -> tuple[Buffer, int]:
        """The file, and how large its records are without compression."""


class RangeFiles:
    """The `RangeWriter` of indexed archives. `new_file` begins one: it gets the file's key."""

    def __init__(
        self,
        *,
        files: Files,
        layout: ArchiveLayout,
        losses: Losses,
        new_file: Callable[[str], FileEncoder],
        file_bytes: int,
    ) -> None:
        self._files, self._layout, self._losses = files, layout, losses
        self._new_file, self._file_bytes = new_file, file_bytes
        self._range = losses.log_range
        self._groups = RecordGroups()
        self._encoder: FileEncoder | None = None
        self._open = _Bounds(self._range.start)
        self._receipts: list[FileReceipt] = []

    def append(self, records: Sequence[Record]) -> None:
        for group in self._groups.add(records):
            self._add(group)

    def close(self) -> Written:
        for group in self._groups.rest():
            self._add(group)
        self._end_file(self._range.end)
        return Written(
            range=self._range,
            files=tuple(self._receipts),
            records=sum(receipt.records for receipt in self._receipts),
            losses=self._losses.counted(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._encoder = None

    def _add(self, group: RecordColumns) -> None:
        first, last = group.offsets[0], group.offsets[-1]
        check(self._open.next_offset <= first and last < self._range.end, f"[{first}, {last}] goes to {self._range}")
        if self._encoder is not None and self._encoder.size_bytes >= self._file_bytes:
            self._end_file(first)
        if self._encoder is None:
            self._encoder = self._new_file(self._key(self._open.start))
        self._encoder.add(group)
        self._open.add(group)

    def _end_file(self, end: int) -> None:
        """Write the open file, which accounts for offsets up to `end`."""
        if self._encoder is None:
            return
        data, plain_bytes = self._encoder.close()
        bounds, key = self._open, self._key(self._open.start)
        self._files.put(key, data, last_message_ms=bounds.latest_ms)
        self._receipts.append(
            FileReceipt(
                name=key,
                range=replace(self._range, start=bounds.start, end=end),
                first_offset=bounds.first_offset,
                last_offset=bounds.next_offset - 1,
                records=bounds.records,
                size_bytes=len(data),
                plain_bytes=plain_bytes,
                timestamp_min_ms=bounds.earliest_ms,
                timestamp_max_ms=bounds.latest_ms,
                content_hash=content_hash(data),
            )
        )
        self._encoder, self._open = None, _Bounds(end)

    def _key(self, start: int) -> str:
        return self._layout.file_key(self._range.topic, self._range.partition, start)


class _Bounds:
    """What is known of the records in the file that is open; it begins at `start`."""

    def __init__(self, start: int) -> None:
        self.start = self.first_offset = self.next_offset = start
        self.records = 0
        self.earliest_ms = self.latest_ms = -1

    def add(self, group: RecordColumns) -> None:
        earliest_ms, latest_ms = min(group.timestamps_ms), max(group.timestamps_ms)
        if self.records == 0:
            self.first_offset, self.earliest_ms, self.latest_ms = group.offsets[0], earliest_ms, latest_ms
        self.earliest_ms, self.latest_ms = min(self.earliest_ms, earliest_ms), max(self.latest_ms, latest_ms)
        self.next_offset = group.offsets[-1] + 1
        self.records += len(group.offsets)


def content_hash(data: Buffer) -> str:
    return f"blake3:{blake3(data).hexdigest()}"
