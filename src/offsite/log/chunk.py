"""The results of a reader: whole batches, holes and gaps. Together they account for every offset read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from offsite.log.batch import BatchHeader


class GapEvidence(StrEnum):
    """The proof that offsets hold no record."""

    BATCH = "batch"
    """The next batch of the log begins behind the offsets."""
    COMPACTION = "compaction"
    """The leader of a compacted topic has no record at the offsets, below its high watermark, and repeated the answer
    several times."""
    ARCHIVE = "archive"
    """The foreign archive holds no record at the offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Whole batches of one partition, back to back in `data`; `batches[i].position` is relative to `data`.

    `data` is valid only until the caller asks for the next chunk: readers reuse their buffers.
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
    """Offsets `[start, end)` of a partition without a record, and the evidence. `seen_at`: the base offset of the batch
    behind the offsets, or the high watermark below which the log held nothing."""

    topic: str
    partition: int
    start: int
    end: int
    evidence: GapEvidence
    seen_at: int
