"""Reads a file forward in parts, with a position. Owns no format."""

from __future__ import annotations

from offsite.archives.files import Files

__all__ = ["ByteSource", "FileEnds"]

PART_BYTES = 4 << 20


class FileEnds(Exception):
    """The file has fewer bytes than requested."""


class ByteSource:
    """A file read forward in parts. `position`: of the next byte. `exists` is False for a missing file."""

    def __init__(self, files: Files, key: str) -> None:
        self._files, self._key = files, key
        self._part, self._at, self._fetched = b"", 0, 0
        self._is_last = False
        self.exists = True

    @property
    def position(self) -> int:
        return self._fetched - len(self._part) + self._at

    def at_end(self) -> bool:
        return self._at == len(self._part) and not self._fetch()

    def take(self, size_bytes: int) -> bytes:
        """Read the next bytes. Raises `FileEnds`, and takes none, when too few remain."""
        while len(self._part) - self._at < size_bytes:
            if not self._fetch():
                raise FileEnds(f"{size_bytes} bytes needed, but only {len(self._part) - self._at} are left")
        self._at += size_bytes
        return self._part[self._at - size_bytes : self._at]

    def read(self, size_bytes: int) -> bytes:
        """Read at most `size_bytes` bytes; empty at the end."""
        return b"" if self.at_end() else self.take(min(size_bytes, len(self._part) - self._at))

    def seek(self, position: int) -> None:
        self._part, self._at, self._fetched, self._is_last = b"", 0, position, False

    def skip_past(self, marker: bytes) -> bool:
        """Go behind the next `marker`; without a marker, go to the end and return False."""
        while (marker_start := self._part.find(marker, self._at)) < 0:
            self._at = max(self._at, len(self._part) - len(marker) + 1)
            if not self._fetch():
                self._at = len(self._part)
                return False
        self._at = marker_start + len(marker)
        return True

    def _fetch(self) -> bool:
        """Fetch a further part behind the unread bytes."""
        if self._is_last:
            return False
        part = self._files.get_range(self._key, self._fetched, PART_BYTES)
        self.exists = part is not None
        part = part or b""
        self._is_last = len(part) < PART_BYTES
        self._part, self._at = self._part[self._at :] + part, 0
        self._fetched += len(part)
        return bool(part)
