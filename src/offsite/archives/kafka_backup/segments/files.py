"""The two files of a segment: its records, read in bounded windows and examined at a position without loading the file,
and its index.

The index is a version byte, then 24 bytes per record: offset, position, length. Positions count from the start of the
records file, so the first is 1; in a well-formed index, records adjoin. A crash may leave a partial entry at the end,
or records without an entry.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from offsite.archives.files import Files
from offsite.archives.kafka_backup.partition_files import NO_FILE, SegmentFile
from offsite.archives.kafka_backup.segments.record import Effort, Malformed, RecordShape, decode_run, shape_at
from offsite.model.errors import DamagedArchive

VERSION = b"\x01"
ENTRY_BYTES = 24
FIRST_POSITION = len(VERSION)
WINDOW_BYTES = 4 << 20
_MAX_REPEAT_BYTES = 32 << 20
"""Of bytes possibly written twice by the tool after a crash: the tool writes at most some hundred records at once."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Adjoining entries, by column."""

    offsets: Sequence[int]
    positions: Sequence[int]
    lengths: Sequence[int]

    def __len__(self) -> int:
        return len(self.offsets)

    def end(self, number: int) -> int:
        """Return the end of the record in the records file, according to entry `number`."""
        return self.positions[number] + self.lengths[number]

    def __getitem__(self, part: slice) -> Entries:
        return Entries(self.offsets[part], self.positions[part], self.lengths[part])


NO_ENTRIES = Entries((), (), ())


def encode_entries(offsets: Sequence[int], start: int, ends: Sequence[int]) -> bytes:
    """Encode the entries of adjoining records from `start`; `ends`: the end of every record."""
    positions = [start, *ends[:-1]]
    lengths = [end - position for position, end in zip(positions, ends, strict=True)]
    return _big_endian(array("q", chain.from_iterable(zip(offsets, positions, lengths, strict=True)))).tobytes()


def decode_entries(data: bytes) -> Entries:
    """Decode the complete entries in `data` by column; a torn last entry is left out."""
    flat = array("q")
    flat.frombytes(data[: len(data) - len(data) % ENTRY_BYTES])
    columns = _big_endian(flat)
    return Entries(columns[0::3], columns[1::3], columns[2::3])


def entry_count(index_bytes: int) -> int:
    """Return the number of complete entries in an index file of this size."""
    return max(index_bytes - len(VERSION), 0) // ENTRY_BYTES


def entry_position(number: int) -> int:
    """Return the position of entry `number` in the index file; for the count of entries, the position of the next
    entry."""
    return len(VERSION) + number * ENTRY_BYTES


def is_torn(index_bytes: int) -> bool:
    """Whether the file ends inside an entry, or before the version byte."""
    return index_bytes == 0 or (index_bytes - len(VERSION)) % ENTRY_BYTES != 0


def _big_endian(values: array[int]) -> array[int]:
    if sys.byteorder == "little":
        values.byteswap()
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentIndexFile:
    """An index file of a segment, read by ranges of entries.

    `count`: complete entries; 0 for an absent file or another version. `is_torn`: bytes follow the complete entries.
    `is_known`: the file has the known version.
    """

    files: Files
    key: str
    count: int
    is_torn: bool
    is_known: bool

    @classmethod
    def of(cls, files: Files, segment: SegmentFile) -> SegmentIndexFile:
        is_known = segment.index_bytes != NO_FILE and files.get_range(segment.index_key, 0, 1) == VERSION
        count = entry_count(segment.index_bytes) if is_known else 0
        return cls(
            files=files, key=segment.index_key, count=count, is_torn=is_torn(segment.index_bytes), is_known=is_known
        )

    def entries(self, number: int, count: int) -> Entries:
        """Return at most `count` entries from `number`; fewer at the end of the file."""
        count = min(count, self.count - number)
        if count <= 0:
            return NO_ENTRIES
        return decode_entries(self.files.get_range(self.key, entry_position(number), count * ENTRY_BYTES) or b"")

    def first_from(self, offset: int) -> int:
        """Return the number of the first entry with this offset or a higher offset; the count of entries without a
        match."""
        return self._first(lambda entries: entries.offsets[0] >= offset)

    def first_at(self, position: int) -> int:
        """Return the number of the first entry whose record begins at or behind `position`."""
        return self._first(lambda entries: entries.positions[0] >= position)

    def first_beyond(self, position: int) -> int:
        """Return the number of the first entry whose record ends behind `position`."""
        return self._first(lambda entries: entries.end(0) > position)

    def _first(self, holds: Callable[[Entries], bool]) -> int:
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if holds(self.entries(middle, 1)):
                high = middle
            else:
                low = middle + 1
        return low


@dataclass(frozen=True, slots=True)
class RecordsFile:
    """A records file, read in bounded windows. `size_bytes`: where reading ends; a file growing meanwhile keeps the
    initial end."""

    files: Files
    key: str
    size_bytes: int

    def read(self, start: int, end: int) -> bytes:
        """Read bytes `[start, end)` inside the file. Raises `DamagedArchive` when the file has become shorter."""
        data = self.files.get_range(self.key, start, end - start)
        if data is None or len(data) < end - start:
            raise DamagedArchive(
                f"{self.key} at byte {start}: the file was truncated or removed during the read",
                hint="run the command again when no other process writes to the archive",
            )
        return data

    def window(self, start: int, end: int, size_bytes: int = WINDOW_BYTES) -> bytes:
        """Read bytes from `start`, at most `size_bytes` and not beyond `end`."""
        return self.read(start, min(end, start + size_bytes))

    def describes(self, entry: Entries) -> bool:
        """Whether the first entry matches the file: offset, position and length."""
        start, end = entry.positions[0], entry.end(0)
        if not FIRST_POSITION <= start < end <= self.size_bytes:
            return False
        try:
            shape = self.shape_at(start, end)
        except Malformed:
            return False
        return shape.offset == entry.offsets[0] and shape.end == end

    def is_repeated(self, start: int, end: int) -> bool:
        """Whether `[start, end)` exists twice: as the beginning of the following bytes, where a torn record was written
        again, or as complete records right before, appended twice. A repetition is no loss."""
        size_bytes = end - start
        if size_bytes > _MAX_REPEAT_BYTES:
            return False
        data = self.read(start, end)
        if end + size_bytes <= self.size_bytes and self.read(end, end + size_bytes) == data:
            return True
        before = start - size_bytes
        if before < FIRST_POSITION or self.read(before, start) != data:
            return False
        ends = decode_run(data).ends
        return bool(ends) and ends[-1] == size_bytes

    def shape_at(self, start: int, end: int, effort: Effort | None = None) -> RecordShape:
        """Read the shape of the record at `start`, at most up to `end`. Raises `Malformed` for other bytes,
        `Exhausted`."""
        return shape_at(self.read, start, end, effort)
