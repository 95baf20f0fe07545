"""`offsite export`: write a backup, or a cluster, into an archive that other tools read."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options.common import Output, SparkMaster
from offsite.cli.options.export import ExportOptions, export_job
from offsite.cli.options.option_group import takes
from offsite.cli.output import EXIT_PARTIAL, OutputFormat, emit
from offsite.cli.wiring import spark
from offsite.model.errors import BadOption
from offsite.model.size import format_size
from offsite.model.time import parse_duration_s

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.services.archives.export_job import ExportJob
    from offsite.services.archives.export_report import ExportPlanReport
    from offsite.services.archives.run_export import ExportResult
    from offsite.spark.runner import Runner

Follow = Annotated[
    bool,
    typer.Option("--follow", help="Go on exporting what is new, until SIGINT or SIGTERM; a run is finished first."),
]
Interval = Annotated[str, typer.Option("--interval", help="With --follow: how long to wait between runs.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be exported. Repairs what a crash left, writes no record.")
]


@takes(ExportOptions)
def export(
    options: ExportOptions,
    follow: Follow = False,
    interval: Interval = "10s",
    dry_run: DryRun = False,
    spark_master: SparkMaster = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Write topics into an archive of another format, as of a restore point or straight from a cluster.

    The same command again adds what is new since; one that was interrupted goes on. A record that the format cannot
    hold is refused by name (exit code 14), unless --lossy. Exit code 3: all is written that was there, but the source
    had lost records (holes).
    """
    interval_s = parse_duration_s(interval)
    if follow and (options.point_is_fixed or dry_run):
        raise BadOption("--follow goes on with what is new", hint="leave out the restore point and --dry-run")
    job = export_job(options, spark_master)
    if dry_run:
        _show_plan(job, output)
        return
    with spark(spark_master, preload="offsite.copy.export") as runner:
        if follow:
            _follow(job, runner, interval_s, output)
            return
        result = _run(job, runner, options.backup or "")
    emit(result, output=output, render=_render_result)
    if not result.complete:
        raise typer.Exit(EXIT_PARTIAL)


def _show_plan(job: ExportJob, output: OutputFormat) -> None:
    from offsite.services.archives.export_report import report_export

    with job.alone():  # planning repairs what a crash left
        plan = job.plan()
    emit(report_export(plan, job.target), output=output, render=_render_plan)


def _run(job: ExportJob, runner: Runner, label: str) -> ExportResult:
    from offsite.cli.progress import progress

    with job.alone():
        plan = job.plan()
        with progress(f"export {label}".strip(), total_bytes=plan.estimated_bytes) as on_progress:
            return job.run(plan, runner, on_progress=on_progress)


def _follow(job: ExportJob, runner: Runner, interval_s: float, output: OutputFormat) -> None:
    with _told_to_stop() as stop:
        job.follow(
            runner,
            interval_s=interval_s,
            stop=stop,
            on_result=lambda result: emit(result, output=output, render=_render_result),
        )


@contextmanager
def _told_to_stop() -> Iterator[Event]:
    """An event that SIGINT and SIGTERM set, the first time; the next SIGINT interrupts."""
    stop = Event()

    def stop_once(number: int, _: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    before = {each: signal.signal(each, stop_once) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _render_plan(console: Console, report: ExportPlanReport) -> None:
    from rich.table import Table

    table = Table("topic", "partition", "from offset", "to offset", "offsets")
    for part in report.partitions:
        table.add_row(part.topic, str(part.partition), f"{part.start:,}", f"{part.end:,}", f"{part.end - part.start:,}")
    console.print(table)
    console.print(
        f"export {report.source} into the {report.format} archive {report.archive}: about "
        f"{format_size(report.estimated_bytes)} in {report.tasks} tasks, {len(report.holes)} holes; "
        f"{report.groups} groups"
    )
    for note in report.notes:
        console.print(f"  note: {note}")


def _render_result(console: Console, result: ExportResult) -> None:
    console.print(
        f"export of {result.source} into the {result.format} archive {result.archive}",
        f"  {result.records:,} records of {result.topics} topics in {result.files} files, "
        f"{format_size(result.size_bytes)}; {result.groups:,} groups with {result.group_offsets:,} offsets",
        sep="\n",
    )
    for hole in result.holes:
        console.print(f"  hole: {hole.topic}/{hole.partition} [{hole.start}, {hole.end}) {hole.reason}")
    for what, records in result.losses:
        console.print(f"  lost: {what}, in {records:,} records")
    for lack in result.not_held:
        console.print(f"  not in this format: {lack}")
    for sick in result.sick:
        console.print(f"  not read: {sick}")
    for each in result.postponed:
        console.print(f"  later: {each.topic}/{each.partition} from {each.offset}, where a transaction is undecided")
    for note in result.notes:
        console.print(f"  note: {note}")
