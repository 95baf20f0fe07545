"""`offsite archive`: look into archives of other tools, mend what they are found by, and let old files go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.commands import archive_retention
from offsite.cli.options.archive import ArchivePlace, ArchiveReadOptions, archive_source
from offsite.cli.options.common import Output
from offsite.cli.options.option_group import takes
from offsite.cli.output import OutputFormat, emit
from offsite.model.errors import Damaged, UnfitArchive
from offsite.model.size import format_size
from offsite.model.time import format_time

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.archives.kafka_backup import Reindexed
    from offsite.services.archives.inspection import Inspection, RecordLines

app = typer.Typer(help="Look into archives of other tools, and let old files go.", no_args_is_help=True)
app.add_typer(archive_retention.app, name="retention")

File = Annotated[
    str | None, typer.Option("--file", help="kafka-backup: show the records of this segment, as inspect names it.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="With --file: how many records at most.")]


@app.command()
@takes(ArchiveReadOptions)
def inspect(
    options: ArchiveReadOptions, file: File = None, limit: Limit = 100, output: Output = OutputFormat.TABLE
) -> None:
    """Show what an archive holds, what of its source it lacks, and what is damaged.

    Files that no index lists are read through, as an import would. Exit code 13: something is damaged; 2: a file is
    whole, and none that an import takes.
    """
    from offsite.services.archives.inspection import inspect, inspect_file

    source, is_unfit = archive_source(options), False
    if file is not None:
        lines = inspect_file(source, file, limit=limit)
        emit(lines, output=output, render=_render_records)
        damaged = lines.damaged
    else:
        found = inspect(source)
        emit(found, output=output, render=_render)
        damaged, is_unfit = found.damaged, bool(found.unfit)
    if damaged:
        raise typer.Exit(Damaged.exit_code)
    if is_unfit:
        raise typer.Exit(UnfitArchive.exit_code)


@app.command()
def reindex(
    path: ArchivePlace,
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic [default: all].")] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Make the indexes of kafka-backup segments anew from the records: after a crash, or when segments were deleted.

    Whole records are never touched; a torn end is cut off. Exit code 13: something holds no record.
    """
    from offsite.services.archives.inspection import reindex

    done = reindex(path, topic)
    emit(done, output=output, render=_render_reindexed)
    if any(damage.file not in {each.file for each in done.segments if each.cut_bytes} for damage in done.damage):
        raise typer.Exit(Damaged.exit_code)


def _render(console: Console, found: Inspection) -> None:
    from rich.table import Table

    of_cluster = f" of cluster {found.cluster_id}" if found.cluster_id else ""
    console.print(f"{found.format} archive {found.archive}{of_cluster}")
    table = Table("topic", "partition", "from offset", "to offset", "files", "size")
    for part in found.partitions:
        end = "?" if part.end is None else f"{part.end:,}"
        table.add_row(
            part.topic, str(part.partition), f"{part.start:,}", end, str(part.files), format_size(part.size_bytes)
        )
    console.print(table)
    if found.segments:
        _render_segments(console, found)
    console.print(f"{found.groups:,} groups with {found.group_offsets:,} committed offsets")
    for hole in found.holes:
        console.print(f"hole: {hole.topic}/{hole.partition} [{hole.start}, {hole.end}) {hole.reason}")
    for damage in found.damaged:
        console.print(f"damaged: {damage}")
    for damage in found.unfit:
        console.print(f"not taken: {damage}\nnext: {damage.unfit}")
    for lack in found.fidelity:
        console.print(f"not in the archive: {lack}")


def _render_segments(console: Console, found: Inspection) -> None:
    from rich.table import Table

    table = Table("segment", "offsets", "records", "size", "index")
    for each in found.segments:
        offsets = "-" if each.first_offset is None else f"{each.first_offset:,} to {each.last_offset:,}"
        table.add_row(each.file, offsets, f"{each.records:,}", format_size(each.size_bytes), each.index.value)
    console.print(table)
    if any(each.index != "ok" for each in found.segments):
        console.print(f"next: offsite archive reindex {found.archive}")


def _render_records(console: Console, found: RecordLines) -> None:
    from rich.table import Table

    table = Table("byte", "size", "offset", "time", "key", "value", "headers")
    for each in found.records:
        texts = ["null" if text is None else text for text in (each.key, each.value)]
        time = format_time(each.timestamp_ms) if each.timestamp_ms != -1 else "-"
        row = [str(each.position), str(each.size_bytes), f"{each.offset:,}", time, *texts, str(each.headers)]
        table.add_row(*row)
    console.print(table)
    for damage in found.damaged:
        console.print(f"damaged: {damage}")


def _render_reindexed(console: Console, done: Reindexed) -> None:
    for each in done.segments:
        cut = f", {each.cut_bytes} torn bytes cut off" if each.cut_bytes else ""
        state = "index written anew" if each.is_rewritten else "index was right"
        console.print(f"{each.file}: {each.records:,} records, {state}{cut}")
    for key in done.partition_indexes:
        console.print(f"{key}: written anew")
    for key in done.removed:
        console.print(f"{key}: removed, it had no records")
    for damage in done.damage:
        console.print(f"damaged: {damage}")
    console.print(f"{done.records:,} records in {len(done.segments)} segments")
