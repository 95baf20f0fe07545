"""The index of a segment: a version byte, then 24 bytes per record: offset, position, length. Pure.

Positions count from the start of the records file, so the first is 1; in a well-formed index, records adjoin. A crash
may leave a partial entry at the end, or records without an entry.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from offsite.archives.files import Files
from offsite.archives.kafka_backup.partition_files import NO_FILE, SegmentFile

VERSION = b"\x01"
ENTRY_BYTES = 24


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
