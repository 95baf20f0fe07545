"""The evidence in an answer to Fetch: the only rule by which a reader's position moves. Pure.

A position moves past an offset only on positive evidence:

- a batch of the log that ends beyond the offset;
- a log start above the offset, told by the leader in the leader epoch of the read;
- for a topic that is or was compacted, without remote storage: an answer of the leader that holds the partition, is
  empty below the high watermark, and stays empty after offsets and epoch were asked again. Compaction can remove the
  last records of a log, and only the empty answer shows the removal.

Everything else proves nothing. A broker that enforces a quota leaves the partition out, a broker that waits for remote
storage leaves the records out, a new leader does not know the high watermark yet: all three look like the end of a log,
and none is. Time is never evidence. Without evidence a reader waits, and then fails the range.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from operator import attrgetter

from offsite.kafka.protocol.fetch import FetchAnswer
from offsite.log.batch import BatchHeader, scan
from offsite.log.range import Chunk, LogRange
from offsite.model.cleanup_policy import is_compacted
from offsite.model.errors import DamagedBatch

UNANSWERED_MAX_S = 120.0
"""How long a leader may give no evidence: as long as a partition may be without leader."""
THROTTLED_MAX_S = 3600.0
"""How long a quota may let nothing through. Beyond, the quota is shut rather than slow."""
GIVEN_UP_MAX_S = 5.0
"""How long to wait for a partition for which the process has waited in vain before: further ranges of the partition
need not take as long to fail."""
CONFIRMATIONS = 3
"""How often a compacted log must be found empty below the high watermark, every time after offsets and epoch were asked
again. A single time could be a leader that has just taken over; a second and a third time cost half a second at the
log's end."""


class FetchVerdict(Enum):
    """What an answer without error shows about the offsets from the position on."""

    RECORDS = auto()
    """Records, or the beginning of a batch that did not fit."""
    THROTTLED = auto()
    """A quota holds the client back: the partition was left out."""
    LEFT_OUT = auto()
    """The partition was left out for no reason."""
    BEHIND = auto()
    """The high watermark is not yet, or no longer, at the end of the range."""
    EMPTY = auto()
    """No records from the position on, although the high watermark is beyond the range."""


def judge_fetch(answer: FetchAnswer, *, end: int) -> FetchVerdict:
    """Judge an answer without error code about a range that ends at `end`."""
    if not answer.is_included:
        return FetchVerdict.THROTTLED if answer.throttle_ms > 0 else FetchVerdict.LEFT_OUT
    if len(answer.records):
        return FetchVerdict.RECORDS
    return FetchVerdict.BEHIND if answer.high_watermark < end else FetchVerdict.EMPTY


class TailLoss(Enum):
    """Whether compaction can have removed the last records of a topic, and whether an empty answer can prove it."""

    IMPOSSIBLE = auto()
    PROVABLE = auto()
    UNPROVABLE = auto()
    """The topic is or was compacted and has remote storage, whose slow answer looks the same. Brokers up to Kafka 4.4
    refuse both settings together (KIP-405); KIP-1272 is going to allow them."""


def judge_tail(configs: Mapping[str, str], *, was_compacted: bool) -> TailLoss:
    """Judge a topic with these settings, defaults included."""
    if not was_compacted and not is_compacted(configs):
        return TailLoss.IMPOSSIBLE
    return TailLoss.UNPROVABLE if configs.get("remote.storage.enable") == "true" else TailLoss.PROVABLE


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
