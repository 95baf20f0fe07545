"""What a reader hands to a writer: whole batches, a hole, or a gap. Together they account for every offset read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from offsite.log.batch import BatchHeader


class Evidence(StrEnum):
    """The proof that offsets hold no record."""

    BATCH = "batch"
    """The next batch of the log begins behind them."""
    COMPACTION = "compaction"
    """The leader of a compacted topic has nothing there, below its high watermark, and said so again and again."""
    ARCHIVE = "archive"
    """The foreign archive they came from holds nothing there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Whole batches of one partition, back to back in `data`; `batches[i].position` is relative to `data`.

    `data` is only valid until the next chunk is asked for: readers reuse their buffers.
    """

    data: memoryview
    batches: Sequence[BatchHeader]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """Offsets `[start, end)` of a partition that the source no longer had. `reason`: `retention` or `truncation`."""

    topic: str
    partition: int
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets `[start, end)` of a partition that hold no record, and by what that is known. `seen_at`: the base offset
    of the batch behind them, or the high watermark below which there was nothing."""

    topic: str
    partition: int
    start: int
    end: int
    evidence: Evidence
    seen_at: int
