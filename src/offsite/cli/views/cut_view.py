"""What a restore point leaves out, of each partition and of topics that were made anew, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.copy.incarnations import KnownIncarnation
    from offsite.services.point_report import CutReport

_SHOWN = 20
"""A cut through ten thousand partitions is read in the JSON output."""


def render_cuts(console: Console, cuts: Sequence[CutReport]) -> None:
    """A line for each of the first partitions, nothing when all are taken whole."""
    for cut in cuts[:_SHOWN]:
        end = f"up to offset {cut.end:,} of {cut.commit_end:,}, " if cut.end < cut.commit_end else ""
        console.print(
            f"  cut: {cut.topic}/{cut.partition}: {end}segments: {cut.whole_segments} whole, {cut.edge_segments} in "
            f"part, {cut.left_out_segments} left out"
        )
    if len(cuts) > _SHOWN:
        console.print(f"  cut: {len(cuts) - _SHOWN:,} more partitions (all of them with -o json)")


def render_incarnations(console: Console, incarnations: Sequence[KnownIncarnation]) -> None:
    """Nothing when no topic was made anew."""
    from offsite.copy.incarnations import incarnation_notes

    for line in incarnation_notes(incarnations):
        console.print(f"  {line}")
