"""The index of a partition: a version byte, then for each segment its stem (length i32, UTF-8) and start (i64). Pure.

It only saves listing: names of files say the same, and our reader trusts those. It may lag behind a crashed writer, and
name segments that somebody deleted since.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

VERSION = b"\x01"

_LENGTH = struct.Struct(">i")
_START = struct.Struct(">q")
_LONGEST_STEM_BYTES = 200  # two numbers of 20 digits and the words around them fit twice


class IndexedSegment(NamedTuple):
    """One entry, and where in the file it begins."""

    stem: str
    start: int
    position: int = 0


def encode_partition_index(segments: Iterable[tuple[str, int]]) -> bytes:
    """The whole file, for stems and start offsets in rising order of these."""
    return VERSION + b"".join(encode_entry(stem, start) for stem, start in segments)


def encode_entry(stem: str, start: int) -> bytes:
    name = stem.encode()
    return _LENGTH.pack(len(name)) + name + _START.pack(start)


def decode_partition_index(data: bytes) -> list[IndexedSegment]:
    """The entries, up to the first that is torn or cannot be one. `data` begins with the version byte, or is empty."""
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
