"""`offsite archive`: inspect archives of other tools, repair indexes, and remove old files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.archive_options import ArchivePlace, ArchiveReadOptions, archive_source
from offsite.cli.commands import archive_retention
from offsite.cli.options import Output, takes
from offsite.cli.output import Line, OutputFormat, Table, emit
from offsite.cli.views.repository import hole_lines
from offsite.model.errors import Damaged, UnfitArchive
from offsite.model.names import amount
from offsite.model.units import format_size, format_time

if TYPE_CHECKING:
    from offsite.archives.inspection import ArchiveInspection, RecordLines
    from offsite.archives.kafka_backup import ReindexResult

app = typer.Typer(help="Inspect archives of other tools, and delete old files.", no_args_is_help=True)
app.add_typer(archive_retention.app, name="retention")

File = Annotated[
    str | None, typer.Option("--file", help="kafka-backup: show the records of this segment, by its name in inspect.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="With --file: maximum number of records.")]


@app.command()
@takes(ArchiveReadOptions)
def inspect(
    options: ArchiveReadOptions, file: File = None, limit: Limit = 100, output: Output = OutputFormat.TABLE
) -> None:
    """Show the content of an archive, the missing parts of its source, and damage.

    Files outside every index are read completely, as by an import. Exit code 13: a part is damaged; 2: an intact file
    cannot be imported.
    """
    from offsite.archives.inspection import inspect, inspect_file

    source, is_unfit = archive_source(options), False
    if file is not None:
        lines = inspect_file(source, file, limit=limit)
        emit(lines, output=output, render=_render_records)
        damaged = lines.damaged
    else:
        inspection = inspect(source)
        emit(inspection, output=output, render=_render)
        damaged, is_unfit = inspection.damaged, bool(inspection.unfit)
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
    """Create the indexes of kafka-backup segments again from the records: after a crash, or after segments were
    deleted.

    Complete records are never touched; a torn end is cut off. Exit code 13: some bytes hold no record.
    """
    from offsite.archives.inspection import reindex

    result = reindex(path, topic)
    emit(result, output=output, render=_render_reindexed)
    if any(
        damage.file not in {segment.file for segment in result.segments if segment.cut_bytes}
        for damage in result.damage
    ):
        raise typer.Exit(Damaged.exit_code)


def _render(inspection: ArchiveInspection) -> Iterator[Line]:
    of_cluster = f" of cluster {inspection.cluster_id}" if inspection.cluster_id else ""
    yield f"{inspection.format} archive {inspection.archive}{of_cluster}"
    table = Table("topic", "partition", "from offset", "to offset", "files", "size")
    for part in inspection.partitions:
        end = "?" if part.end is None else f"{part.end:,}"
        table.add_row(
            part.topic, str(part.partition), f"{part.start:,}", end, str(part.files), format_size(part.size_bytes)
        )
    yield table
    if inspection.segments:
        yield from _render_segments(inspection)
    yield f"{amount(inspection.groups, 'group')} with {amount(inspection.group_offsets, 'committed offset')}"
    yield from hole_lines(inspection.holes, begin="hole: ")
    for damage in inspection.damaged:
        yield f"damaged: {damage}"
    for damage in inspection.unfit:
        yield f"not imported: {damage}\nnext: {damage.unfit}"
    for lack in inspection.fidelity:
        yield f"not in the archive: {lack}"


def _render_segments(inspection: ArchiveInspection) -> Iterator[Line]:
    table = Table("segment", "offsets", "records", "size", "index")
    for segment in inspection.segments:
        offsets = "-" if segment.first_offset is None else f"{segment.first_offset:,} to {segment.last_offset:,}"
        table.add_row(
            segment.file, offsets, f"{segment.records:,}", format_size(segment.size_bytes), segment.index.value
        )
    yield table
    if any(segment.index != "ok" for segment in inspection.segments):
        yield f"next: offsite archive reindex {inspection.archive}"


def _render_records(lines: RecordLines) -> Iterator[Line]:
    table = Table("byte", "size", "offset", "time", "key", "value", "headers")
    for record in lines.records:
        texts = ["null" if text is None else text for text in (record.key, record.value)]
        time = format_time(record.timestamp_ms) if record.timestamp_ms != -1 else "-"
        row = [str(record.position), str(record.size_bytes), f"{record.offset:,}", time, *texts, str(record.headers)]
        table.add_row(*row)
    yield table
    for damage in lines.damaged:
        yield f"damaged: {damage}"


def _render_reindexed(result: ReindexResult) -> Iterator[Line]:
    for segment in result.segments:
        cut = f", {segment.cut_bytes} torn bytes cut off" if segment.cut_bytes else ""
        state = "index written again" if segment.is_rewritten else "index was correct"
        yield f"{segment.file}: {amount(segment.records, 'record')}, {state}{cut}"
    for key in result.partition_indexes:
        yield f"{key}: written again"
    for key in result.removed:
        yield f"{key}: removed, it had no records"
    for damage in result.damage:
        yield f"damaged: {damage}"
    yield f"{amount(result.records, 'record')} in {amount(len(result.segments), 'segment')}"
