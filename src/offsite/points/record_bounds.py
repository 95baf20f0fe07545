"""The bounds of one partition in a restore: by offset, and by the time of records.

Pure. Nearly every batch lies wholly on one side, and its header decides. Times need not rise with offsets, nor inside a
batch, and a header holds only the latest time: the remaining cases are decided record by record.
"""

from __future__ import annotations

from typing import NamedTuple

from offsite.log.batch import BatchHeader
from offsite.log.records.record import LOG_APPEND_TIME, Record


class RecordBounds(NamedTuple):
    """Bounds of the records to take: offsets in `[start, end)`, and a time of `until_ms` (epoch ms) or before; None:
    any time.

    A record without a time (-1) is before every time. A tuple, because every batch gets one.
    """

    start: int
    end: int
    until_ms: int | None = None

    def takes_all(self, header: BatchHeader) -> bool:
        """Whether the header shows that every record of the batch is taken."""
        in_range = self.start <= header.base_offset and header.last_offset < self.end
        return in_range and (self.until_ms is None or header.max_timestamp_ms <= self.until_ms)

    def takes_none(self, header: BatchHeader) -> bool:
        """Whether the header shows that no record of the batch is taken. False leaves the question open."""
        if header.record_count == 0 or header.last_offset < self.start or header.base_offset >= self.end:
            return True
        if self.until_ms is None or header.max_timestamp_ms <= self.until_ms:
            return False
        return header.timestamp_type == LOG_APPEND_TIME

    def takes(self, record: Record) -> bool:
        in_range = self.start <= record.offset < self.end
        return in_range and (self.until_ms is None or record.timestamp_ms <= self.until_ms)
