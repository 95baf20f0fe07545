"""Holes as results show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from offsite.repository.commit import RecordedHole


@dataclass(frozen=True, slots=True, kw_only=True)
class HoleReport:
    """A hole: offsets `[start, end)` that the source no longer had, or that nobody accounts for (`unaccounted`)."""

    topic: str
    partition: int
    start: int
    end: int
    reason: str


def hole_reports(holes: Iterable[RecordedHole]) -> tuple[HoleReport, ...]:
    """Report every hole that is a loss, in the same order."""
    return _reports(hole for hole in holes if hole.is_loss)


def expected_deletions(holes: Iterable[RecordedHole]) -> tuple[HoleReport, ...]:
    """Report every hole that is no loss: a hole behind all readers, or a declared hole."""
    return _reports(hole for hole in holes if not hole.is_loss)


def _reports(holes: Iterable[RecordedHole]) -> tuple[HoleReport, ...]:
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
