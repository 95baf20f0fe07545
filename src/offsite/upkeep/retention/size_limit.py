"""Fits restore points into a size limit: as many of the newest as possible, beside the points that always stay."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from offsite.log.range import Span
from offsite.upkeep.retention.gone import NeededBytes
from offsite.upkeep.retention.needs import PartitionHistory

RunNeeds = Sequence[tuple[PartitionHistory, Span]]
ReadNeeds = Callable[[Span], Generator[None, None, RunNeeds]]
"""The needs of a run of restore points, commit numbers `[first, last + 1)`."""


def first_that_fits(
    fixed: Sequence[Span], kept_runs: Sequence[Span], *, max_bytes: int, needed: NeededBytes, read: ReadNeeds
) -> Generator[None, None, int]:
    """The first commit number of the points of `kept_runs` within the limit: all points from the number on, together
    with the points of `fixed`, need at most `max_bytes`. A number after all runs, if `fixed` alone needs more. Runs
    rise, and have a point at every number."""
    for run in fixed:
        needed.add((yield from read(run)))
    for first, end in reversed(kept_runs):
        needs = yield from read((first, end))
        if needed.total_with(needs) <= max_bytes:
            needed.add(needs)
            continue
        too_many, fits = first, end
        while fits - too_many > 1:
            middle = (too_many + fits) // 2
            is_in = needed.total_with((yield from read((middle, end)))) <= max_bytes
            too_many, fits = (too_many, middle) if is_in else (middle, fits)
        return fits
    return 0
