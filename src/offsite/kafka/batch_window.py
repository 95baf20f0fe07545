"""Select the batches of a fetch answer that belong to a range, and find the next position. Pure."""

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
    """The part of a fetch answer that belongs to a range, and the next position.

    `chunk` is None when no batch of the answer belongs to the range. `next_offset` is at most the range's end; without
    a whole batch in the answer, `next_offset` is the fetched position. Offsets `[gap_start, gap_end)`, if any, lie
    before the first batch from `position` on. `reaches_to`: end of the last batch that begins before the range's end.
    `beyond`: base offset of the first batch behind the range's end, -1 when none was seen.
    """

    chunk: Chunk | None
    next_offset: int
    gap_start: int
    gap_end: int
    reaches_to: int
    beyond: int


def batch_window(
    records: memoryview, log_range: LogRange, position: int, *, log_start: int, owns_start: bool = True
) -> BatchWindow:
    """Take the batches with a base offset in `[position, end)` out of the answer to a fetch at `position`.

    A batch that begins before the range belongs to the range before, and is left out. Exception: the log itself starts
    inside the batch (DeleteRecords cuts anywhere), so no earlier range can have read the batch. With `owns_start` such
    a batch belongs to the range with the log's start. A batch that begins in the range but before `position` overlaps
    records read already. Raises `DamagedBatch`, `OldMessageFormat`.
    """
    batches: Sequence[BatchHeader] = scan(records)
    if not batches:
        return _nothing(position)
    # 1. Find the next position, and the gap before the first batch.
    next_offset = min(max(position, batches[-1].next_offset), log_range.end)
    gap_start, gap_end = _gap(batches, position, log_range.end)
    beyond, reaches_to = -1, max(position, batches[-1].next_offset)
    # 2. Drop batches of an earlier range, and batches read before.
    if batches[0].base_offset < position:
        records = records[_bytes_before(batches, log_range, position, log_start, owns_start=owns_start) :]
        batches = scan(records)
    # 3. Cut off batches behind the range's end.
    if batches and batches[-1].base_offset >= log_range.end:
        inside = bisect_left(batches, log_range.end, key=_BASE_OFFSET)
        beyond, reaches_to = batches[inside].base_offset, batches[inside - 1].next_offset if inside else gap_start
        batches = batches[:inside]
    chunk = Chunk(data=records[: batches[-1].end_position], batches=batches) if batches else None
    return BatchWindow(
        chunk=chunk,
        next_offset=next_offset,
        gap_start=gap_start,
        gap_end=gap_end,
        reaches_to=reaches_to,
        beyond=beyond,
    )


def _nothing(position: int) -> BatchWindow:
    return BatchWindow(
        chunk=None, next_offset=position, gap_start=position, gap_end=position, reaches_to=position, beyond=-1
    )


def _gap(batches: Sequence[BatchHeader], position: int, end: int) -> tuple[int, int]:
    """The offsets from `position`, or from the end of a batch that reaches over `position`, to the next batch."""
    first = bisect_left(batches, position, key=_BASE_OFFSET)
    start = max(position, batches[first - 1].next_offset) if first else position
    following = batches[first].base_offset if first < len(batches) else start
    return min(start, end), min(max(start, following), end)


def _bytes_before(
    batches: Sequence[BatchHeader], log_range: LogRange, position: int, log_start: int, *, owns_start: bool
) -> int:
    """Bytes at the beginning of batches outside of the range."""
    below = bisect_left(batches, position, key=_BASE_OFFSET)
    reaching = batches[below - 1]
    is_owned = owns_start or reaching.base_offset >= log_range.start
    if log_start == position and reaching.next_offset > position and is_owned:
        below -= 1
    elif reaching.base_offset >= log_range.start and reaching.next_offset > position:
        raise DamagedBatch(
            f"{log_range}: the batch at offset {reaching.base_offset} overlaps the offsets up to {position}, which "
            "were read already",
            hint="the log changed during the read: run the backup again",
        )
    return batches[below].position if below < len(batches) else batches[-1].end_position
