"""`offsite archive retention`: remove old files of an archive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options.archive import ArchivePlace, BackupId, FormatToWrite
from offsite.cli.options.common import COLLECT_AFTER, Bootstrap, KafkaConfigFile, Output, Yes
from offsite.cli.options.option_group import takes
from offsite.cli.output import OutputFormat, confirm, emit, emit_each, emit_notice
from offsite.cli.views.archive_retention_view import audit_line, make_retention_report, render_done, render_plan
from offsite.cli.wiring import connect
from offsite.model.clock import SystemClock

if TYPE_CHECKING:
    from offsite.archives.retention import RetentionLimits
    from offsite.archives.retention_run import ArchiveRetentionPlan, RetentionTarget
    from offsite.archives.retention_source import MirrorSource

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
            confirm(f"delete {len(planned.going)} files of {target.place}?")
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
    from offsite.model.units import parse_duration_s, parse_size

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
