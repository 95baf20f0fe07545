"""One index file of a segment, read by ranges of entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from offsite.archives.files import Files
from offsite.archives.kafka_backup.partition_files import NO_FILE, SegmentFile
from offsite.archives.kafka_backup.segments.index import (
    ENTRY_BYTES,
    NO_ENTRIES,
    VERSION,
    Entries,
    decode_entries,
    entry_count,
    entry_position,
    is_torn,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentIndexFile:
    """`count` entries are whole; none, when the file is absent or of another version. `is_torn`: bytes follow them.
    `is_known`: it is of the version that we know."""

    files: Files
    key: str
    count: int
    is_torn: bool
    is_known: bool

    @classmethod
    def of(cls, files: Files, segment: SegmentFile) -> SegmentIndexFile:
        known = segment.index_bytes != NO_FILE and files.get_range(segment.index_key, 0, 1) == VERSION
        count = entry_count(segment.index_bytes) if known else 0
        return cls(
            files=files, key=segment.index_key, count=count, is_torn=is_torn(segment.index_bytes), is_known=known
        )

    def entries(self, number: int, count: int) -> Entries:
        """At most `count` entries from `number` on; fewer where the file ends."""
        count = min(count, self.count - number)
        if count <= 0:
            return NO_ENTRIES
        return decode_entries(self.files.get_range(self.key, entry_position(number), count * ENTRY_BYTES) or b"")

    def first_from(self, offset: int) -> int:
        """The number of the first entry with this offset or a higher one; the count of entries when there is none."""
        return self._first(lambda entries: entries.offsets[0] >= offset)

    def first_at(self, position: int) -> int:
        """The number of the first entry whose record begins there or behind."""
        return self._first(lambda entries: entries.positions[0] >= position)

    def first_beyond(self, position: int) -> int:
        """The number of the first entry whose record ends behind that."""
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
