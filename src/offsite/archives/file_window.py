"""A file of an archive read from its start to its end through a window, and checked against its index before.

Files as offsite writes them fit the window: they are fetched once. Larger ones are hashed in a pass of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from blake3 import blake3

from offsite.archives.archive import Damage, FileReceipt, OnDamage
from offsite.archives.files import Files

__all__ = ["FileWindow", "SourceFile", "open_file"]

WINDOW_BYTES = 1 << 20
_WHOLE_BYTES = 64 << 20
"""Files up to this size are fetched at once: what offsite writes is at most about half of it."""
_HASHED_BYTES = 4 << 20


class FileWindow:
    """A file read forward through a window of it. `position` is that of the next byte to be read. `data` may hold the
    file's first bytes already."""

    def __init__(self, files: Files, key: str, data: bytes = b"") -> None:
        self._files, self._key = files, key
        self._data, self._start, self._at = data, 0, 0

    @property
    def position(self) -> int:
        return self._start + self._at

    def read(self, size: int) -> bytes:
        """The next `size` bytes, fewer only at the end of the file."""
        self._fill(size)
        data = self._data[self._at : self._at + size]
        self._at += len(data)
        return data

    def line(self, limit: int) -> bytes:
        """The next line with its newline; without one, at the end of the file or when it is longer than `limit`."""
        searched = 0
        while (newline := self._data.find(b"\n", self._at + searched)) < 0:
            searched = len(self._data) - self._at
            if searched >= limit or not self._fill(searched + 1):
                return self.read(limit)
        return self.read(min(newline + 1 - self._at, limit))

    def back_to(self, position: int) -> None:
        """Read again from a position that was passed; fetched anew unless it is in the window still."""
        if position < self._start:
            self._data, self._start = b"", position
        self._at = position - self._start

    def pass_marker(self, marker: bytes) -> bool:
        """Go on behind the next `marker`; False when there is none up to the end."""
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
        """Have `size` more bytes in the window; False when the file ends before."""
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
    """A file of an archive, and what its index says of it.

    `intact`: whether it has the hash of its index; None when no index lists it. `size_bytes` is what the index says,
    `held_bytes` what is there, `plain_bytes` what the index says of its records; all 0 when no index lists it.
    """

    key: str
    window: FileWindow
    intact: bool | None = None
    size_bytes: int = 0
    held_bytes: int = 0
    plain_bytes: int = 0


def open_file(files: Files, key: str, listed: FileReceipt | None, on_damage: OnDamage) -> SourceFile | None:
    """The file, open to be read. None, with its damage reported, when there is no such file."""
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
    """How long the file is that begins with `data`, and its hash."""
    hasher, size_bytes = blake3(data), len(data)
    while len(data) == chunk_bytes:
        data, chunk_bytes = files.get_range(key, size_bytes, _HASHED_BYTES) or b"", _HASHED_BYTES
        hasher.update(data)
        size_bytes += len(data)
    return size_bytes, f"blake3:{hasher.hexdigest()}"
