"""`offsite archive`: look into archives of other tools, and mend what they are found by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from offsite.cli.archive_options import (
    AdoptOrphans,
    ArchivePlace,
    EmptyAs,
    EmptyAsOption,
    FormatToRead,
)
from offsite.cli.options import Output
from offsite.cli.output import OutputFormat, emit
from offsite.model.errors import Damaged
from offsite.model.size import format_size

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.services.archive_place import Inspection

app = typer.Typer(help="Look into archives of other tools.", no_args_is_help=True)


@app.command()
def inspect(
    path: ArchivePlace,
    format_: FormatToRead,
    empty_as: EmptyAs = EmptyAsOption.NULL,
    adopt_orphans: AdoptOrphans = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show what an archive holds, what of its source it lacks, and what is damaged. Reads indexes, not records.

    Exit code 13: something is damaged.
    """
    from offsite.archives.formats import ReadOptions
    from offsite.services.archive_place import inspect, open_source

    read = ReadOptions(empty_as=empty_as.value, adopt_orphans=adopt_orphans)
    found = inspect(open_source(format_, path, read))
    emit(found, output=output, render=_render)
    if found.damaged:
        raise typer.Exit(Damaged.exit_code)


def _render(console: Console, found: Inspection) -> None:
    from rich.table import Table

    of_cluster = f" of cluster {found.cluster_id}" if found.cluster_id else ""
    console.print(f"{found.format} archive {found.archive}{of_cluster}", markup=False)
    table = Table("topic", "partition", "from offset", "to offset", "files", "size")
    for part in found.partitions:
        end = "?" if part.end is None else f"{part.end:,}"
        table.add_row(
            part.topic, str(part.partition), f"{part.start:,}", end, str(part.files), format_size(part.size_bytes)
        )
    console.print(table)
    console.print(f"{found.groups:,} groups with {found.group_offsets:,} committed offsets")
    for hole in found.holes:
        console.print(f"hole: {hole.topic}/{hole.partition} [{hole.start}, {hole.end}) {hole.reason}", markup=False)
    for damage in found.damaged:
        console.print(f"damaged: {damage}", markup=False)
    for lack in found.fidelity:
        console.print(f"not in the archive: {lack}", markup=False)
