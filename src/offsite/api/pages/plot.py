"""Figures over time as one line of an SVG. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from offsite.model.size import format_size
from offsite.model.time import format_time
from offsite.repository.history import CommitSummary

WIDTH, HEIGHT, MARGIN = 600, 110, 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """`path` of an SVG, what its ends are, and the same in words."""

    path: str
    top: str
    first: str
    last: str
    described: str


def stored_over_time(points: Sequence[CommitSummary]) -> Line | None:
    """How what is stored grew with these restore points; None for fewer than two."""
    if len(points) < 2:
        return None
    sums = list(accumulate(each.stored_bytes for each in points))
    times = [each.committed_at_ms for each in points]
    spots = zip(_scaled(times, 0, WIDTH), _scaled([0, *sums], HEIGHT, MARGIN)[1:], strict=True)
    first, last = format_time(times[0])[:16].replace("T", " "), format_time(times[-1])[:16].replace("T", " ")
    top = f"{format_size(sums[-1])} stored by {len(points):,} restore points"
    return Line(
        path="M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in spots),
        top=top,
        first=first,
        last=last,
        described=f"{top}, from {first} to {last} UTC",
    )


def places(times_ms: Sequence[int], *, width: float = WIDTH, margin: float = 6) -> list[float]:
    """Where moments stand on a line of time."""
    return [round(each, 1) for each in _scaled(times_ms, margin, width - margin)]


def _scaled(values: Sequence[int], start: float, end: float) -> list[float]:
    least, span = min(values), (max(values) - min(values)) or 1
    return [start + (each - least) * (end - start) / span for each in values]
