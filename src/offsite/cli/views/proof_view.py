"""Shows the findings of a proof, for people: differences, uncompared parts, and holes of the backup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.reports.log_report import HoleReport
    from offsite.restore.compare.result import ProofFinding, UncomparedPartition

_SHOWN = 24
"""Holes shown: a backup with thousands is read in the JSON output."""


def render_lacking(console: Console, holes: Sequence[HoleReport]) -> None:
    """Show a line for each of the first holes."""
    for hole in holes[:_SHOWN]:
        where = f"{hole.topic}/{hole.partition} [{hole.start}, {hole.end})"
        console.print(f"    {where} {hole.reason}")
    if len(holes) > _SHOWN:
        console.print(f"    and {len(holes) - _SHOWN:,} more (all of them with -o json)")


def render_open(console: Console, findings: Sequence[ProofFinding], uncompared: Sequence[UncomparedPartition]) -> None:
    """Show all differences, and all uncompared partitions."""
    for finding in findings:
        console.print(f"  DIFFERENT: {finding.where}: {finding.what}")
    for partition in uncompared:
        hint = f" ({partition.hint})" if partition.hint else ""
        console.print(f"  NOT COMPARED: {partition.topic}/{partition.partition}: {partition.message}{hint}")
