"""Writes ranges of records into the files of an indexed archive. A file is built in memory, written completely, and
counted afterwards.

Files written before an exception remain and do not count: no index lists the files. Records are cut into groups; the
end of a group depends on the records only, never on the size of calls, so writing a range again produces the same
bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Protocol, Self

from blake3 import blake3

from offsite.archives.archive import ArchiveTopic, FileReceipt, RangeReceipt, RangeWriter
from offsite.archives.files import Files
from offsite.archives.indexed.archive import IndexedArchive
from offsite.log.buffer import Buffer
from offsite.log.group_offsets import GroupOffsets
from offsite.log.range import LogRange, TopicPartition
from offsite.log.records.record import Record
from offsite.log.records.record_columns import RecordColumns, blob_bytes
from offsite.model.errors import NotRepresentable, check

GROUP_RECORDS = 512
GROUP_BYTES = 4 << 20
"""A group ends with the record whose key, value and header values reach this total: a group lies in memory."""
FILE_BYTES = 32 << 20
"""A file ends with the group of records that reaches this size: the file lies in memory until then."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Properties without a place in the format, of the records of a range: refused by name, or counted with `lossy`."""

    log_range: LogRange
    lossy: bool
    _counts: Counter[str] = field(default_factory=Counter, init=False)

    def note(self, offset: int, loss: str) -> None:
        """Note that the record at `offset` has the property `loss`, unsupported by the format. Raises
        `NotRepresentable` unless lossy."""
        if not self.lossy:
            raise NotRepresentable(
                f"{self.log_range.topic_partition} offset {offset}: {loss}",
                hint="drop it with --lossy, or choose a format that can store it, such as avro without --plain",
            )
        self._counts[loss] += 1

    def counted(self) -> tuple[tuple[str, int], ...]:
        return tuple(sorted(self._counts.items()))


class FileEncoder(Protocol):
    """Encodes a file."""

    @property
    def size_bytes(self) -> int:
        """The approximate size of the file so far."""

    def add(self, columns: RecordColumns) -> None:
        """Add the next records. Raises `NotRepresentable`."""

    def close(self) -> tuple[Buffer, int]:
        """Return the file, and the size of the records without compression."""


NewFile = Callable[[str], FileEncoder]
"""Begins a file with the given key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedWriter(ABC):
    """An `ArchiveWriter` of an indexed format. A subclass names the archive and encodes a file.

    A file ends near `file_bytes`, and lies in memory until then. `lossy`: leave out properties beyond the format.
    """

    files: Files
    lossy: bool = False
    file_bytes: int = FILE_BYTES

    @property
    def divides(self) -> bool:
        return True

    def ends(self) -> Mapping[TopicPartition, int]:
        return self._archive.ends(self._kind)

    def topic_ids(self) -> Mapping[str, str]:
        return self._archive.topic_ids()

    def last_record(self, of: TopicPartition) -> Record | None:  # noqa: ARG002
        """Return None: the index stores the topic's id."""
        return None

    def left_alone(self) -> tuple[str, ...]:
        return self._archive.left_alone()

    def open(self, log_range: LogRange) -> RangeWriter:
        losses = Losses(log_range=log_range, lossy=self.lossy)
        return _RangeFiles(
            archive=self._archive, losses=losses, new_file=self._new_file(losses), file_bytes=self.file_bytes
        )

    def finish(
        self, written: Sequence[RangeReceipt], topics: Sequence[ArchiveTopic], groups: Mapping[str, GroupOffsets]
    ) -> tuple[str, ...]:
        """Store topics and groups completely."""
        self._archive.finish(self._kind, written, topics, groups)
        return ()

    @property
    @abstractmethod
    def _archive(self) -> IndexedArchive: ...

    @property
    @abstractmethod
    def _kind(self) -> str:
        """The written variant, from the archive's `kinds`."""

    @abstractmethod
    def _new_file(self, losses: Losses) -> NewFile:
        """Return a function that begins files of the range `losses.log_range`."""


class _RangeFiles:
    """The `RangeWriter` of indexed archives: adjoining files, written in order."""

    def __init__(self, *, archive: IndexedArchive, losses: Losses, new_file: NewFile, file_bytes: int) -> None:
        self._files, self._layout, self._losses = archive.files, archive.layout, losses
        self._new_file, self._file_bytes = new_file, file_bytes
        self._range = losses.log_range
        self._groups = RecordGroups()
        self._encoder: FileEncoder | None = None
        self._open = _Bounds(self._range.start)
        self._receipts: list[FileReceipt] = []

    def append(self, records: Sequence[Record]) -> None:
        self.append_columns(RecordColumns.of(records))

    def append_columns(self, columns: RecordColumns) -> None:
        for group in self._groups.add(columns):
            self._add(group)

    def close(self) -> RangeReceipt:
        for group in self._groups.rest():
            self._add(group)
        self._end_file(self._range.end)
        return RangeReceipt(
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
                content_hash=f"blake3:{blake3(data).hexdigest()}",
            )
        )
        self._encoder, self._open = None, _Bounds(end)

    def _key(self, start: int) -> str:
        return self._layout.file_key(self._range.topic, self._range.partition, start)


class _Bounds:
    """Bounds of the records in the open file, which begins at `start`."""

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
