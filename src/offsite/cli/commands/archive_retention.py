"""`offsite archive retention`: remove old files of an archive, and show removed and kept parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.archive_options import ArchivePlace, BackupId, FormatToWrite
from offsite.cli.options import COLLECT_AFTER, Bootstrap, KafkaConfigFile, Output, Yes, takes
from offsite.cli.output import (
    REST_IN_JSON,
    Line,
    OutputFormat,
    Table,
    confirm,
    emit,
    emit_each,
    emit_notice,
    first_lines,
)
from offsite.cli.wiring import connect
from offsite.model.clock import SystemClock
from offsite.model.names import amount
from offsite.model.units import format_size, format_time, parse_duration_s, parse_size

if TYPE_CHECKING:
    from offsite.archives.retention import ExpiredObject, RetentionLimits
    from offsite.archives.retention_audit import ArchiveAuditReport
    from offsite.archives.retention_run import ArchiveRetentionPlan, ArchiveRetentionResult, RetentionTarget
    from offsite.archives.retention_source import MirrorSource


_LISTED_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedFile:
    """A removed file: records of offsets `[start, end)`, the newest of `last_message_ms`."""

    name: str
    topic: str
    partition: int
    start: int
    end: int
    bytes: int
    last_message_ms: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPartition:
    """The kept part of a partition, and why the first file is kept."""

    topic: str
    partition: int
    start: int
    end: int
    files: int
    bytes: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRetentionReport:
    """The removed and kept parts of an archive at `at_ms`, by the clock of the store. Ages count back from `from_ms`: 0
    if no record has a time, and nothing is removed by age. `removed_files` no longer count; `deleted_objects` are gone,
    from these files or from files of earlier runs; `waiting_objects` are deleted after the grace period;
    `locked_objects` are protected by the store. A plan deletes nothing: the report lists the planned deletions."""

    archive: str
    format: str
    at_ms: int
    from_ms: int
    removed_files: tuple[RemovedFile, ...]
    removed_bytes: int
    kept: tuple[KeptPartition, ...]
    kept_bytes: int
    deleted_objects: tuple[str, ...]
    deleted_bytes: int
    waiting_objects: int
    waiting_bytes: int
    locked_objects: tuple[str, ...]


def make_retention_report(
    target: RetentionTarget, plan: ArchiveRetentionPlan, *, result: ArchiveRetentionResult | None = None
) -> ArchiveRetentionReport:
    """Make the report of a plan, or of the executed part of a plan."""
    deleted, waiting = (result.deleted, result.waiting) if result else (plan.collectable, plan.waiting)
    return ArchiveRetentionReport(
        archive=target.place,
        format=target.format,
        at_ms=plan.now_ms,
        from_ms=plan.from_ms,
        removed_files=tuple(
            RemovedFile(
                name=expiring.file.name,
                topic=expiring.file.partition.topic,
                partition=expiring.file.partition.partition,
                start=expiring.file.start,
                end=expiring.file.end,
                bytes=expiring.file.size_bytes,
                last_message_ms=expiring.last_message_ms,
                why=expiring.why,
            )
            for expiring in plan.going
        ),
        removed_bytes=sum(expiring.file.size_bytes for expiring in plan.going),
        kept=tuple(
            KeptPartition(
                topic=kept_files.partition.topic,
                partition=kept_files.partition.partition,
                start=kept_files.start,
                end=kept_files.end,
                files=kept_files.files,
                bytes=kept_files.size_bytes,
                why=kept_files.why,
            )
            for kept_files in plan.kept_files
        ),
        kept_bytes=sum(kept_files.size_bytes for kept_files in plan.kept_files),
        deleted_objects=tuple(stored_object.key for stored_object in deleted),
        deleted_bytes=_bytes(deleted),
        waiting_objects=len(waiting),
        waiting_bytes=_bytes(waiting),
        locked_objects=tuple(stored_object.key for stored_object in result.locked) if result else (),
    )


def render_plan(report: ArchiveRetentionReport) -> Iterator[Line]:
    """Show the planned removals, and the kept parts."""
    yield from _render_files(report, "would be removed")
    if report.deleted_objects:
        size = format_size(report.deleted_bytes)
        yield f"  {amount(len(report.deleted_objects), 'object')} ({size}) of files removed earlier would be deleted"
    table = Table("topic", "partition", "from offset", "to offset", "files", "size", "kept because")
    for partition in report.kept:
        row = (
            partition.topic,
            str(partition.partition),
            f"{partition.start:,}",
            f"{partition.end:,}",
            str(partition.files),
        )
        table.add_row(*row, format_size(partition.bytes), partition.why)
    yield table


def render_done(report: ArchiveRetentionReport) -> Iterator[Line]:
    """Show the removals."""
    if not (report.removed_files or report.deleted_objects or report.locked_objects):
        yield f"{report.format} archive {report.archive}: nothing to delete"
        return
    yield from _render_files(report, "removed")
    yield f"  deleted: {amount(len(report.deleted_objects), 'object')} ({format_size(report.deleted_bytes)})"
    if report.waiting_objects:
        size = format_size(report.waiting_bytes)
        yield (
            f"  {amount(report.waiting_objects, 'object')} ({size}) not deleted yet: run this command again when "
            "--collect-after has passed"
        )
    for key in report.locked_objects:
        yield f"  protected by the store, not deleted: {key}"


def audit_line(line: ArchiveAuditReport) -> str:
    """Format a deletion as a line."""
    if line.problem:
        return f"{line.what} cannot be read: {line.problem}"
    size = f" ({format_size(line.bytes)})" if line.bytes else ""
    return f"{format_time(line.at_ms)} {line.kind}, {line.state}: {line.what}{size}, {line.rule}; by {line.who}"


def _render_files(report: ArchiveRetentionReport, verb: str) -> Iterator[Line]:
    count, size = len(report.removed_files), format_size(report.removed_bytes)
    kept_size = format_size(report.kept_bytes)
    yield f"{report.format} archive {report.archive}: {amount(count, 'file')} ({size}) {verb}, {kept_size} kept"
    if report.from_ms != report.at_ms:
        since = (
            f"from {format_time(report.from_ms)}, the newest record"
            if report.from_ms
            else "from no time: no record has one"
        )
        yield f"  ages count back {since}"
    yield from first_lines(
        report.removed_files,
        lambda file: f"  {file.name}: last message {format_time(file.last_message_ms)}, {file.why}",
        most=_LISTED_MAX,
        more=REST_IN_JSON,
    )


def _bytes(objects: Iterable[ExpiredObject]) -> int:
    return sum(stored_object.size_bytes for stored_object in objects)


app = typer.Typer(help="Delete old files of an archive.", no_args_is_help=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRetentionOptions:
    """Options of plan and apply, as typed: the archive, and the limits."""

    path: ArchivePlace
    format: FormatToWrite
    keep_age: Annotated[
        str | None, typer.Option("--keep-age", help="Delete files whose last message is older than this, such as 30d.")
    ] = None
    mirror: Annotated[
        bool,
        typer.Option(
            "--mirror",
            help="Delete files whose records the topic's own retention deletes at the source: by the settings on the "
            "cluster of --bootstrap, else by the settings recorded in the archive.",
        ),
    ] = False
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None
    max_bytes: Annotated[
        str | None,
        typer.Option(
            "--max-bytes", help="Delete the oldest files until the total size is at most this, such as 500GiB."
        ),
    ] = None
    collect_after: Annotated[
        str,
        typer.Option(
            "--collect-after",
            help="How long objects are kept after their file was removed from the index, by the store's clock.",
        ),
    ] = COLLECT_AFTER
    backup_id: BackupId = ""


@app.command()
@takes(ArchiveRetentionOptions)
def plan(options: ArchiveRetentionOptions, output: Output = OutputFormat.TABLE) -> None:
    """Show which files would be deleted, what is kept of each partition, and why. Changes nothing.

    Only whole files are deleted, the oldest of a partition first, never the newest. If the time of a file's last
    message is unknown, this file and all later files are kept. With --mirror, nothing is deleted for a topic that is
    gone, was recreated, or cannot be described.
    """
    target, limits = _opened(options)
    emit(make_retention_report(target, _planned(target, limits, options)), output=output, render=render_plan)


@app.command()
@takes(ArchiveRetentionOptions)
def apply(options: ArchiveRetentionOptions, yes: Yes = False, output: Output = OutputFormat.TABLE) -> None:
    """Delete files: first from the archive's index, then their objects after --collect-after.

    An export into the same archive may run at the same time. Objects protected by the store are kept and listed.
    """
    from offsite.archives.retention_run import carry_out

    target, limits = _opened(options)
    planned = _planned(target, limits, options)
    report = make_retention_report(target, planned)
    if planned.going or planned.collectable:
        if not yes:
            emit_notice(report, render=render_plan)
            confirm(f"delete {amount(len(planned.going), 'file')} of {target.place}?")
        report = make_retention_report(target, planned, result=carry_out(target, planned, clock=SystemClock()))
    emit(report, output=output, render=render_done)


@app.command()
def log(path: ArchivePlace, output: Output = OutputFormat.TABLE) -> None:
    """Show what retention deleted of an archive: when, by whom, by which rule, and how many bytes.

    A line is written before the deletion, at the place given to apply. The state is `done` if the object no longer
    exists, else `to be done`.
    """
    from offsite.archives.retention_audit import read_audit_reports

    emit_each(read_audit_reports(path), name="deletions", output=output, line=audit_line)


def _opened(options: ArchiveRetentionOptions) -> tuple[RetentionTarget, RetentionLimits]:
    from offsite.archives.formats import ReadOptions
    from offsite.archives.retention import RetentionLimits
    from offsite.archives.retention_run import open_archive

    limits = RetentionLimits(
        keep_age_ms=None if options.keep_age is None else int(parse_duration_s(options.keep_age) * 1000),
        max_bytes=None if options.max_bytes is None else parse_size(options.max_bytes, "--max-bytes"),
    )
    target = open_archive(
        options.format,
        options.path,
        options=ReadOptions(backup_id=options.backup_id),
        collect_after_ms=int(parse_duration_s(options.collect_after) * 1000),
    )
    return target, limits


def _planned(
    target: RetentionTarget, limits: RetentionLimits, options: ArchiveRetentionOptions
) -> ArchiveRetentionPlan:
    from offsite.archives.retention_run import plan_retention

    mirroring = _mirroring(options) if options.mirror else None
    return plan_retention(target, limits, clock=SystemClock(), mirroring=mirroring)


def _mirroring(options: ArchiveRetentionOptions) -> MirrorSource:
    from offsite.archives.retention_source import MirrorSource

    is_named = options.bootstrap is not None or options.kafka_config is not None
    return MirrorSource(cluster=connect(options.bootstrap, options.kafka_config).admin if is_named else None)
