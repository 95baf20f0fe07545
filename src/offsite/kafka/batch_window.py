"""Which batches of a fetch answer belong to a range, and where to read on. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from offsite.log.batch import BatchHeader, scan
from offsite.log.chunk import Chunk
from offsite.log.range import LogRange
from offsite.model.errors import DamagedBatch

_BASE_OFFSET = attrgetter("base_offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWindow:
    """`chunk` is None when no batch of the answer belongs to the range. `next_offset` is at most the range's end, and
    is the position asked for when the answer held no whole batch."""

    chunk: Chunk | None
    next_offset: int


def batch_window(records: memoryview, log_range: LogRange, position: int, *, log_start: int) -> BatchWindow:
    """Take the batches whose base offset is in `[position, end)` out of what a fetch at `position` brought.

    A batch that begins before the range belongs to the range before and is left out, unless the log itself starts
    inside it (DeleteRecords cuts anywhere): then it belongs to the range that holds the log's start. A batch that
    begins in the range but before `position` overlaps what was read already. Raises `DamagedBatch`,
    `OldMessageFormat`.
    """
    batches: Sequence[BatchHeader] = scan(records)
    if not batches:
        return BatchWindow(chunk=None, next_offset=position)
    next_offset = min(max(position, batches[-1].next_offset), log_range.end)
    if batches[0].base_offset < position:
        records = records[_bytes_before(batches, log_range, position, log_start) :]
        batches = scan(records)
    if batches and batches[-1].base_offset >= log_range.end:
        batches = batches[: bisect_left(batches, log_range.end, key=_BASE_OFFSET)]
    chunk = Chunk(data=records[: batches[-1].end_position], batches=batches) if batches else None
    return BatchWindow(chunk=chunk, next_offset=next_offset)


def _bytes_before(batches: Sequence[BatchHeader], log_range: LogRange, position: int, log_start: int) -> int:
    """How many bytes at the beginning are of batches that do not belong to the range."""
    below = bisect_left(batches, position, key=_BASE_OFFSET)
    if log_start == position and batches[below - 1].next_offset > position:
        below -= 1
    elif position > log_range.start:
        raise DamagedBatch(
            f"{log_range}: the batch at offset {batches[0].base_offset} overlaps what was read up to {position}",
            hint="the log changed while it was read: run the backup again",
        )
    return batches[below].position if below < len(batches) else batches[-1].end_position
