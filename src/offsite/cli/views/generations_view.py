"""Generations, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsite.model.units import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from offsite.generations.removals import GenerationRemoval
    from offsite.generations.report import ReportLine
    from offsite.generations.status import GenerationReport, SetReport


def render_happened(console: Console, line: ReportLine) -> None:
    console.print(f"{line.set}: {line.text}")


def render_sets(console: Console, sets: Sequence[SetReport]) -> None:
    if not sets:
        console.print("no generations; begin with: offsite generations run")
    for generation_set in sets:
        _render_set(console, generation_set)


def render_release(console: Console, generation_set: SetReport) -> None:
    console.print(
        "released: its instance deletes it when the next generation has replaced it; on another machine in 3 days"
    )
    _render_set(console, generation_set)


def _render_set(console: Console, generation_set: SetReport) -> None:
    from rich.table import Table

    console.print(
        f"{generation_set.name}: topics {', '.join(generation_set.topics)} of cluster {generation_set.cluster_id}"
    )
    table = Table("generation", "instance", "phase", "began", "complete", "place")
    for generation in generation_set.generations:
        table.add_row(
            str(generation.number), generation.instance, _phase(generation), *_times(generation), generation.place
        )
    console.print(table)
    for generation in generation_set.generations:
        if generation.is_released:
            release_text = f"{format_time(generation.released_ms)}, in the name of {generation.released_by or 'nobody'}"
            console.print(f"  generation {generation.number} was released: {release_text}")
        if generation.kept:
            console.print(f"  generation {generation.number} is kept: {generation.kept}")
            console.print(
                "    look at the source; if this is intended: "
                f"offsite generations release --name {generation_set.name} --generation {generation.number}"
            )
    for instance, process in generation_set.processes:
        console.print(f"  instance {instance}: last run by {process}")
    if generation_set.asked_ms:
        console.print(
            f"  the next generation was requested at {format_time(generation_set.asked_ms)}: does the other instance "
            "run?"
        )
    console.print(f"  {generation_set.removed} earlier generations are removed")
    for removal in generation_set.removals:
        console.print(f"    {_removal(removal)}")
    if not generation_set.restore_from:
        console.print("  nothing to restore from yet: no generation is complete")
    elif generation_set.is_archive:
        console.print(
            f"next: offsite import {generation_set.restore_from} --format avro --backup {generation_set.name}-import"
        )
    else:
        console.print(f"next: offsite restore plan --backup {generation_set.restore_from}")


def _phase(generation: GenerationReport) -> str:
    active = "active, " if generation.is_active else ""
    return f"{active}{generation.phase}{', released' if generation.is_released else ''}"


def _removal(entry: GenerationRemoval) -> str:
    if entry.problem:
        return f"{entry.generation} cannot be read: {entry.problem}"
    return f"{format_time(entry.at_ms)} {entry.generation} ({format_size(entry.bytes)}): {entry.why}; by {entry.who}"


def _times(generation: GenerationReport) -> tuple[str, str]:
    return format_time(generation.began_ms), format_time(
        generation.complete_ms
    ) if generation.complete_ms else "not yet"
