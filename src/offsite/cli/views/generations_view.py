"""Generations, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsite.model.size import format_size
from offsite.model.time import format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from offsite.services.generations.removals import Removal
    from offsite.services.generations.report import Line
    from offsite.services.generations.status import GenerationReport, SetReport


def render_happened(console: Console, line: Line) -> None:
    console.print(f"{line.set}: {line.text}")


def render_sets(console: Console, sets: Sequence[SetReport]) -> None:
    if not sets:
        console.print("no generations; begin with: offsite generations run")
    for each in sets:
        _render_set(console, each)


def render_release(console: Console, found: SetReport) -> None:
    console.print("released: its instance removes it when the next one is in its place; on another machine in 3 days")
    _render_set(console, found)


def _render_set(console: Console, found: SetReport) -> None:
    from rich.table import Table

    console.print(f"{found.name}: topics {', '.join(found.topics)} of cluster {found.cluster_id}")
    table = Table("generation", "instance", "phase", "began", "complete", "place")
    for each in found.generations:
        table.add_row(str(each.number), each.instance, _phase(each), *_times(each), each.place)
    console.print(table)
    for each in found.generations:
        if each.is_released:
            said = f"{format_time(each.released_ms)}, in the name of {each.released_by or 'nobody'}"
            console.print(f"  generation {each.number} was released: {said}")
        if each.kept:
            console.print(f"  generation {each.number} stays: {each.kept}")
            console.print(
                "    look at the source; if that is meant: "
                f"offsite generations release --name {found.name} --generation {each.number}"
            )
    for instance, process in found.processes:
        console.print(f"  instance {instance}: last run by {process}")
    if found.asked_ms:
        console.print(f"  the next generation is asked for since {format_time(found.asked_ms)}: is the other one run?")
    console.print(f"  {found.removed} earlier generations are removed")
    for removal in found.removals:
        console.print(f"    {_removal(removal)}")
    if not found.restore_from:
        console.print("  nothing to restore from yet: no generation is complete")
    elif found.is_archive:
        console.print(f"next: offsite import {found.restore_from} --format avro --backup {found.name}-import")
    else:
        console.print(f"next: offsite restore plan --backup {found.restore_from}")


def _phase(each: GenerationReport) -> str:
    active = "active, " if each.is_active else ""
    return f"{active}{each.phase}{', released' if each.is_released else ''}"


def _removal(each: Removal) -> str:
    if each.problem:
        return f"{each.generation} cannot be read: {each.problem}"
    return f"{format_time(each.at_ms)} {each.generation} ({format_size(each.bytes)}): {each.why}; by {each.who}"


def _times(each: GenerationReport) -> tuple[str, str]:
    return format_time(each.began_ms), format_time(each.complete_ms) if each.complete_ms else "not yet"
