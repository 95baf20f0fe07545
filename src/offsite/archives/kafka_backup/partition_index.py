"""The index of a partition: a version byte, then per segment the stem (length i32, UTF-8) and start (i64). Pure.

The index only saves a listing: file names hold the same facts, and offsite's reader trusts the names. The index may lag
after a writer's crash, and may name segments deleted since.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

VERSION = b"\x01"

_LENGTH = struct.Struct(">i")
_START = struct.Struct(">q")
_LONGEST_STEM_BYTES = 200  # twice the size of two numbers of 20 digits with the words around


class IndexedSegment(NamedTuple):
    """An entry, with the position in the file."""

    stem: str
    start: int
    position: int = 0


def encode_partition_index(segments: Iterable[tuple[str, int]]) -> bytes:
    """Encode the whole file, from stems and start offsets in rising order of offsets."""
    return VERSION + b"".join(encode_entry(stem, start) for stem, start in segments)


def encode_entry(stem: str, start: int) -> bytes:
    name = stem.encode()
    return _LENGTH.pack(len(name)) + name + _START.pack(start)


def decode_partition_index(data: bytes) -> list[IndexedSegment]:
    """Decode the entries up to the first torn or impossible entry. `data` begins with the version byte, or is empty."""
    entries = []
    at = len(VERSION)
    while (entry := _entry_at(data, at)) is not None:
        entries.append(entry)
        at += _LENGTH.size + len(entry.stem.encode()) + _START.size
    return entries


def _entry_at(data: bytes, at: int) -> IndexedSegment | None:
    if at + _LENGTH.size > len(data):
        return None
    (name_bytes,) = _LENGTH.unpack_from(data, at)
    name_start = at + _LENGTH.size
    if not 0 < name_bytes <= _LONGEST_STEM_BYTES or name_start + name_bytes + _START.size > len(data):
        return None
    try:
        stem = data[name_start : name_start + name_bytes].decode()
    except UnicodeDecodeError:
        return None
    return IndexedSegment(stem, _START.unpack_from(data, name_start + name_bytes)[0], at)
