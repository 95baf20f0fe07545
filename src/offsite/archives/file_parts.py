"""Reads a file of an archive in parts of bounded size: forward through a window after a check against the index
(`FileWindow`), or more than once (`StoredFile`). Owns no format.

Files written by offsite fit into the window and are fetched once. Larger files are hashed in a separate pass.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from blake3 import blake3

from offsite.archives.archive import Damage, FileReceipt, OnDamage
from offsite.archives.files import Files

WINDOW_BYTES = 1 << 20
_WHOLE_BYTES = 64 << 20
"""Files up to this size are fetched at once: files written by offsite have at most about half the size."""
_HASHED_BYTES = 4 << 20
STORED_PART_BYTES = 8 << 20
"""A file up to this size is fetched once and kept; of a longer file, only a part is in memory. Any header fits."""


class FileWindow:
    """A forward reader with a window. `position`: of the next byte to read. `data` may hold the first bytes of the
    file."""

    def __init__(self, files: Files, key: str, data: bytes = b"") -> None:
        self._files, self._key = files, key
        self._data, self._start, self._at = data, 0, 0

    @property
    def position(self) -> int:
        return self._start + self._at

    def read(self, size: int) -> bytes:
        """Read the next `size` bytes; fewer at the end of the file only."""
        self._fill(size)
        data = self._data[self._at : self._at + size]
        self._at += len(data)
        return data

    def line(self, limit: int) -> bytes:
        """Read the next line with the newline. The newline is missing at the end of the file and for a line longer than
        `limit`."""
        searched = 0
        while (newline := self._data.find(b"\n", self._at + searched)) < 0:
            searched = len(self._data) - self._at
            if searched >= limit or not self._fill(searched + 1):
                return self.read(limit)
        return self.read(min(newline + 1 - self._at, limit))

    def back_to(self, position: int) -> None:
        """Go back to a position; bytes outside the window are fetched again."""
        if position < self._start:
            self._data, self._start = b"", position
        self._at = position - self._start

    def pass_marker(self, marker: bytes) -> bool:
        """Go behind the next `marker`; False if no marker follows."""
        while True:
            marker_start = self._data.find(marker, self._at)
            if marker_start >= 0:
                self._at = marker_start + len(marker)
                return True
            self._at = max(self._at, len(self._data) - len(marker) + 1)
            if not self._fill(len(marker)):
                self._at = len(self._data)
                return False

    def _fill(self, size: int) -> bool:
        """Fetch until the window holds `size` more bytes; False when the file ends before."""
        missing = self._at + size - len(self._data)
        if missing <= 0:
            return True
        end = self._start + len(self._data)
        more = self._files.get_range(self._key, end, max(missing, WINDOW_BYTES)) or b""
        self._data = self._data[self._at :] + more
        self._start, self._at = self._start + self._at, 0
        return len(self._data) >= size


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file of an archive, with the statements of the index.

    `intact`: whether the hash matches the index; None when no index lists the file. `size_bytes`: size by the index,
    `held_bytes`: actual size, `plain_bytes`: plain size of the records by the index; all 0 when no index lists the
    file.
    """

    key: str
    window: FileWindow
    intact: bool | None = None
    size_bytes: int = 0
    held_bytes: int = 0
    plain_bytes: int = 0


def open_file(files: Files, key: str, listed: FileReceipt | None, on_damage: OnDamage) -> SourceFile | None:
    """Open a file for reading. Returns None and reports damage when the file is missing."""
    first_bytes = _WHOLE_BYTES if listed and listed.size_bytes <= _WHOLE_BYTES else WINDOW_BYTES
    data = files.get_range(key, 0, first_bytes)
    if data is None:
        on_damage(Damage(file=key, position=0, problem="missing, although the index lists it" if listed else "missing"))
        return None
    window = FileWindow(files, key, data)
    if listed is None:
        return SourceFile(key=key, window=window)
    held_bytes, held_hash = _measured(files, key, data, first_bytes)
    intact = held_hash == listed.content_hash
    return SourceFile(
        key=key,
        window=window,
        intact=intact,
        size_bytes=listed.size_bytes,
        held_bytes=held_bytes,
        plain_bytes=listed.plain_bytes,
    )


def _measured(files: Files, key: str, data: bytes, chunk_bytes: int) -> tuple[int, str]:
    """Return the size and hash of the file that begins with `data`."""
    hasher, size_bytes = blake3(data), len(data)
    while len(data) == chunk_bytes:
        data, chunk_bytes = files.get_range(key, size_bytes, _HASHED_BYTES) or b"", _HASHED_BYTES
        hasher.update(data)
        size_bytes += len(data)
    return size_bytes, f"blake3:{hasher.hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSums:
    """The checksums of a file. `crc32`: of everything before the last `tail` bytes."""

    size_bytes: int
    crc32: int
    sha256: str
    tail: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A stored file. `head`: the first part, or the whole file."""

    files: Files
    key: str
    head: bytes

    @classmethod
    def open(cls, files: Files, key: str) -> StoredFile | None:
        head = files.get_range(key, 0, STORED_PART_BYTES)
        return None if head is None else cls(files=files, key=key, head=head)

    def parts(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield bytes `[start, end)`, by default up to the end of the file."""
        position = 0
        for part in self._all_parts():
            low, high = max(0, start - position), len(part) if end is None else min(len(part), end - position)
            if low < high:
                yield part if high - low == len(part) else part[low:high]
            position += len(part)

    def sums(self, tail_bytes: int) -> FileSums:
        """Read the whole file once."""
        crc, size, tail, digest = 0, 0, b"", hashlib.sha256()
        for part in self.parts():
            digest.update(part)
            size += len(part)
            if len(part) < tail_bytes:
                tail += part
            else:
                crc, tail = zlib.crc32(tail, crc), part
            crc, tail = zlib.crc32(memoryview(tail)[:-tail_bytes], crc), tail[-tail_bytes:]
        return FileSums(size_bytes=size, crc32=crc, sha256=digest.hexdigest(), tail=tail)

    def _all_parts(self) -> Iterator[bytes]:
        part, position = self.head, 0
        while part:
            yield part
            position += len(part)
            part = (
                (self.files.get_range(self.key, position, STORED_PART_BYTES) or b"")
                if len(part) == STORED_PART_BYTES
                else b""
            )
