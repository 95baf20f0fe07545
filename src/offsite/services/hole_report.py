"""Holes as results show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offsite.repository.commit import RecordedHole


@dataclass(frozen=True, slots=True, kw_only=True)
class HoleReport:
    """Offsets `[start, end)` that the source no longer had."""

    topic: str
    partition: int
    start: int
    end: int
    reason: str


def hole_reports(holes: Sequence[RecordedHole]) -> tuple[HoleReport, ...]:
    """One report for each hole, in the same order."""
    return tuple(
        HoleReport(
            topic=hole.partition_id.topic,
            partition=hole.partition_id.partition,
            start=hole.start,
            end=hole.end,
            reason=hole.reason,
        )
        for hole in holes
    )
