"""Sums of segment figures, as shown in lists and details of backups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

NO_TIMESTAMP_MS = -1


class HasFigures(Protocol):
    """The figures of a `Segment`."""

    @property
    def records(self) -> int: ...
    @property
    def raw_bytes(self) -> int: ...
    @property
    def stored_bytes(self) -> int: ...
    @property
    def base_timestamp_min_ms(self) -> int: ...
    @property
    def timestamp_max_ms(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFigures:
    """Sums over segments. Times are epoch ms, -1 if no record has a time. `timestamp_max_ms`: of the newest record;
    `base_timestamp_min_ms`: the base timestamp of the oldest batch."""

    records: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    base_timestamp_min_ms: int = NO_TIMESTAMP_MS
    timestamp_max_ms: int = NO_TIMESTAMP_MS

    @classmethod
    def of(cls, counted: Iterable[HasFigures]) -> SegmentFigures:
        """The sum of segments, or of figures."""
        segments = tuple(counted)
        return cls(
            records=sum(segment.records for segment in segments),
            raw_bytes=sum(segment.raw_bytes for segment in segments),
            stored_bytes=sum(segment.stored_bytes for segment in segments),
            base_timestamp_min_ms=oldest_ms([segment.base_timestamp_min_ms for segment in segments]),
            timestamp_max_ms=max((segment.timestamp_max_ms for segment in segments), default=NO_TIMESTAMP_MS),
        )


def oldest_ms(times_ms: Sequence[int]) -> int:
    """The least of the valid times; -1 without one. Called for thousands of times at once, nearly always all valid."""
    if (least := min(times_ms, default=NO_TIMESTAMP_MS)) > NO_TIMESTAMP_MS:
        return least
    return min((time_ms for time_ms in times_ms if time_ms > NO_TIMESTAMP_MS), default=NO_TIMESTAMP_MS)
