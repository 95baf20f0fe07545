"""A file of the archive in parts of bounded size, readable more than once. Owns no format."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from offsite.archives.files import Files

__all__ = ["FileSums", "StoredFile"]

PART_BYTES = 8 << 20
"""A file up to this size is fetched once and kept; of a longer file, only a part is in memory. Any header fits."""


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
        head = files.get_range(key, 0, PART_BYTES)
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
            part = (self.files.get_range(self.key, position, PART_BYTES) or b"") if len(part) == PART_BYTES else b""
