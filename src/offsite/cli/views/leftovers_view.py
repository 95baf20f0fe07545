"""What is left over in a backup and around it, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsite.model.size import format_size
from offsite.model.time import format_duration, format_time

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.services.leftovers import Leftovers


def render_leftovers_count(console: Console, left: Leftovers) -> None:
    """One line, where there is something."""
    parts = []
    if left.objects:
        parts.append(f"{left.objects} {_plural(left.objects, 'object')} that nothing needs ({format_size(left.bytes)})")
    if left.restores:
        parts.append(f"{len(left.restores)} unfinished {_plural(len(left.restores), 'restore')}")
    if left.folders:
        size = format_size(sum(each.bytes for each in left.folders))
        parts.append(f"{len(left.folders)} {_plural(len(left.folders), 'copy', 'copies')} beside it ({size})")
    if left.problem:
        parts.append("restores whose records are damaged")
    if parts:
        console.print(f"  left over: {', '.join(parts)}; --leftovers lists them")


def render_leftovers(console: Console, left: Leftovers) -> None:
    """All of them, with what to do."""
    quiet = format_duration(left.quiet_for_s)
    console.print(f"left over, untouched for {quiet} at least by the store's clock; nothing is deleted")
    for each in left.listed:
        written = format_time(each.written_ms)
        console.print(f"  {each.kind}: {each.key} ({format_size(each.bytes)}, written {written})")
    for restore in left.restores:
        console.print(
            f"  unfinished restore {restore.restore} to cluster {restore.cluster_id}, begun "
            f"{format_time(restore.began_ms)}, quiet since {format_time(restore.quiet_since_ms)}: {restore.next_step}"
        )
    for folder in left.folders:
        console.print(
            f"  {folder.place}: {folder.objects} {_plural(folder.objects, 'object')}, {format_size(folder.bytes)}, "
            f"quiet since {format_time(folder.quiet_since_ms)}: {folder.next_step}"
        )
    if left.problem:
        console.print(f"  unfinished restores cannot be told: {left.problem}")
    if not (left.listed or left.restores or left.folders):
        console.print("  nothing")


def _plural(count: int, one: str, many: str = "") -> str:
    return one if count == 1 else many or f"{one}s"
