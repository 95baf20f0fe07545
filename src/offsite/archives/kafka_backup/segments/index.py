"""The index of a segment: a version byte, then 24 bytes for each record: offset, position, length. Pure.

Positions count from the start of the records file, so the first is 1; a well-formed index has each record begin where
the one before it ends. A crash may leave part of an entry at the end, or records without one.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

VERSION = b"\x01"
ENTRY_BYTES = 24


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries that follow each other, by column."""

    offsets: Sequence[int]
    positions: Sequence[int]
    lengths: Sequence[int]

    def __len__(self) -> int:
        return len(self.offsets)

    def end(self, number: int) -> int:
        """Where in the records file entry `number` says that its record ends."""
        return self.positions[number] + self.lengths[number]

    def __getitem__(self, part: slice) -> Entries:
        return Entries(self.offsets[part], self.positions[part], self.lengths[part])


NO_ENTRIES = Entries((), (), ())


def encode_entries(offsets: Sequence[int], start: int, ends: Sequence[int]) -> bytes:
    """Entries of records that lie back to back from `start`; `ends` says where each ends."""
    positions = [start, *ends[:-1]]
    lengths = [end - position for position, end in zip(positions, ends, strict=True)]
    return _big_endian(array("q", chain.from_iterable(zip(offsets, positions, lengths, strict=True)))).tobytes()


def decode_entries(data: bytes) -> Entries:
    """Columns of the whole entries in `data`; a torn one behind them is left out."""
    flat = array("q")
    flat.frombytes(data[: len(data) - len(data) % ENTRY_BYTES])
    columns = _big_endian(flat)
    return Entries(columns[0::3], columns[1::3], columns[2::3])


def entry_count(index_bytes: int) -> int:
    """How many whole entries an index file of this size has."""
    return max(index_bytes - len(VERSION), 0) // ENTRY_BYTES


def entry_position(number: int) -> int:
    """Where in the index file entry `number` begins; of the count of entries: where the next one belongs."""
    return len(VERSION) + number * ENTRY_BYTES


def is_torn(index_bytes: int) -> bool:
    """Whether the file ends inside an entry, or before the version byte."""
    return index_bytes == 0 or (index_bytes - len(VERSION)) % ENTRY_BYTES != 0


def _big_endian(values: array[int]) -> array[int]:
    if sys.byteorder == "little":
        values.byteswap()
    return values
