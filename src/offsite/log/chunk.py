"""What a reader hands to a writer: whole batches, or a hole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offsite.log.batch import BatchHeader


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
