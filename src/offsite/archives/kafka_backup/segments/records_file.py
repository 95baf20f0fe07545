"""A records file, read in bounded windows; examines a position without loading the file."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.archives.files import Files
from offsite.archives.kafka_backup.segments.index import Entries
from offsite.archives.kafka_backup.segments.record_codec import Malformed, decode_run
from offsite.archives.kafka_backup.segments.record_shape import Effort, RecordShape, shape_at
from offsite.model.errors import DamagedArchive

VERSION = b"\x01"
FIRST_POSITION = len(VERSION)
WINDOW_BYTES = 4 << 20

_MAX_REPEAT_BYTES = 32 << 20
"""Of bytes possibly written twice by the tool after a crash: the tool writes at most some hundred records at once."""


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
