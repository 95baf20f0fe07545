"""`offsite import`: make a backup out of an archive of another tool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.archive_options import ArchiveReadOptions, SkipDamaged, archive_source
from offsite.cli.options import BackupName, Output, Repo, takes
from offsite.cli.output import EXIT_PARTIAL, Line, OutputFormat, emit
from offsite.cli.views.repository import hole_lines
from offsite.cli.wiring import SparkOptions, open_repository, spark
from offsite.model.head import Head
from offsite.model.names import amount
from offsite.model.selection import parse_selection, split_all
from offsite.model.units import format_size

if TYPE_CHECKING:
    from offsite.archives.import_run import ImportResult
    from offsite.model.selection import TopicSelection

Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topics",
        help="Topics to import [default: those of the first import, all in a new backup].",
        callback=split_all,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", help="Topics to leave out, same syntax as --topics.", callback=split_all),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions(ArchiveReadOptions):
    """Options of the command, as typed: a field per option."""

    repo: Repo
    backup: BackupName
    topics: Topics = None
    exclude: Exclude = None
    skip_damaged: SkipDamaged = False


@takes(ImportOptions, SparkOptions)
def import_(options: ImportOptions, engine: SparkOptions, output: Output = OutputFormat.TABLE) -> None:
    """Import an archive of another tool as a normal backup.

    The backup has the records at their offsets, the groups, and a list of missing parts. The same command again adds
    new records of the archive. Damage ends the import with exit code 13 and nothing imported, unless --skip-damaged.
    Exit code 3: imported, but the archive has holes or damage.
    """
    from offsite.archives.import_run import ImportRequest, plan_import, run_import
    from offsite.cli.progress import progress
    from offsite.repository.heads import RememberedHead

    repository = open_repository(options.repo)
    source = archive_source(options)
    request = ImportRequest(
        backup=options.backup,
        format=options.format,
        place=source.place,
        selection=_selection(options),
        skip_damaged=options.skip_damaged,
    )
    seen_head = RememberedHead(repository=repository, backup=options.backup)
    with spark(engine.choice(), preload="offsite.archives.import_task") as runner:
        plan = plan_import(repository, source.reader, request)
        if plan.base.seq:
            seen_head.check(repository.backup(options.backup), plan.base)
        with progress(f"import {options.backup}", total_bytes=plan.estimated_bytes) as on_progress:
            result = run_import(
                plan, repository=repository, reader=source.reader, runner=runner, on_progress=on_progress
            )
    seen_head.remember(Head(commit=result.commit, hash=result.head_hash))
    emit(result, output=output, render=_render_result)
    if not result.complete:
        raise typer.Exit(EXIT_PARTIAL)


def _selection(options: ImportOptions) -> TopicSelection | None:
    if not options.topics and not options.exclude:
        return None
    return parse_selection(options.topics or ["*"], options.exclude or (), internal=not options.topics)


def _render_result(result: ImportResult) -> Iterator[Line]:
    yield from render_import(result)
    yield f"next: offsite show {result.backup} | offsite verify --backup {result.backup} --deep"


def render_import(result: ImportResult) -> Iterator[Line]:
    """Show the imported data, without the next step."""
    yield f"backup {result.backup}: commit {result.commit}, from the {result.format} archive {result.archive}"
    yield (
        f"  {amount(result.records, 'record')}, {format_size(result.bytes)} of {amount(result.topics, 'topic')}, "
        f"stored as {format_size(result.stored_bytes)} in {amount(result.segments, 'segment')}"
    )
    if result.groups is not None:
        yield f"  {amount(result.groups.groups, 'group')} with {amount(result.groups.offsets, 'committed offset')}"
    yield from hole_lines(result.holes)
    for damage in result.damaged:
        yield f"  damaged: {damage}"
    for lack in result.fidelity:
        yield f"  not in the archive: {lack}"
