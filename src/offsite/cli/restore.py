"""`offsite restore`: bring topics back into a cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import BackupName, Bootstrap, KafkaConfigFile, Output, Repo, SparkMaster, Yes
from offsite.cli.output import OutputFormat, confirm, emit, emit_notice
from offsite.cli.wiring import Cluster, connect, open_repository, spark
from offsite.model.errors import BadOption
from offsite.model.size import format_size

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.services.restore import PlannedRestore, RestoreResult
    from offsite.services.restore_report import RestorePlanReport

app = typer.Typer(help="Restore topics into a cluster.", no_args_is_help=True)


class IsolationOption(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


Topics = Annotated[list[str] | None, typer.Option("--topics", help="Topics to restore [default: all of the backup].")]
Exclude = Annotated[list[str] | None, typer.Option("--exclude", help="Topics to leave out, same syntax.")]
Rename = Annotated[list[str] | None, typer.Option("--rename", help="old=new: restore under another name.")]
Commit = Annotated[int | None, typer.Option("--commit", help="Restore point: a commit number [default: the newest].")]
At = Annotated[str | None, typer.Option("--at", help="Restore point: the newest commit at or before this time.")]
Isolation = Annotated[
    IsolationOption, typer.Option("--isolation", help="Whether records of aborted transactions come back.")
]


class OffsetsOption(StrEnum):
    AUTO = "auto"
    PRESERVE = "preserve"
    TRANSLATE = "translate"


Offsets = Annotated[
    OffsetsOption,
    typer.Option(
        "--offsets", help="translate: gap-free from the target's end, with a stored map from old to new offsets."
    ),
]


@app.command()
def plan(
    repo: Repo,
    backup: BackupName,
    topics: Topics = None,
    exclude: Exclude = None,
    rename: Rename = None,
    commit: Commit = None,
    at: At = None,
    isolation: Isolation = IsolationOption.READ_COMMITTED,
    offsets: Offsets = OffsetsOption.AUTO,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfigFile = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show what a restore would do. Changes nothing, starts no JVM."""
    from offsite.services.restore_report import report_plan

    cluster = connect(bootstrap, kafka_config)
    prepared = _prepare(repo, backup, topics, exclude, rename, commit, at, isolation, offsets, cluster)
    emit(report_plan(prepared), output=output, render=_render_plan)


@app.command()
def run(
    repo: Repo,
    backup: BackupName,
    topics: Topics = None,
    exclude: Exclude = None,
    rename: Rename = None,
    commit: Commit = None,
    at: At = None,
    isolation: Isolation = IsolationOption.READ_COMMITTED,
    offsets: Offsets = OffsetsOption.AUTO,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfigFile = None,
    spark_master: SparkMaster = None,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Restore topics into empty or new topics; after a crash the same command continues.

    Topics that do not exist are created with the source's partition count and settings.
    """
    from offsite.cli.progress import progress
    from offsite.services.restore import run_restore
    from offsite.services.restore_report import report_plan

    cluster = connect(bootstrap, kafka_config)
    with spark(spark_master, preload="offsite.pipeline.restore_copy") as runner:
        prepared = _prepare(repo, backup, topics, exclude, rename, commit, at, isolation, offsets, cluster)
        if not yes:
            emit_notice(report_plan(prepared), render=_render_plan)
            confirm(f"restore into cluster {prepared.record.cluster_id}?")
        with progress(f"restore {backup}", total_bytes=prepared.plan.raw_bytes) as on_progress:
            result = run_restore(
                prepared, admin=cluster.admin, kafka=cluster.config, runner=runner, on_progress=on_progress
            )
    emit(result, output=output, render=_render_result)


def _prepare(
    repo: str,
    backup: str,
    topics: list[str] | None,
    exclude: list[str] | None,
    rename: list[str] | None,
    commit: int | None,
    at: str | None,
    isolation: IsolationOption,
    offsets: OffsetsOption,
    cluster: Cluster,
) -> PlannedRestore:
    from offsite.model.clock import SystemClock
    from offsite.model.selection import parse_selection
    from offsite.model.time import parse_time
    from offsite.pipeline.restore_plan import parse_renames
    from offsite.services.restore import RestoreRequest, prepare_restore

    if offsets is OffsetsOption.PRESERVE:
        raise BadOption("this version cannot keep source offsets", hint="use --offsets translate and its stored map")
    if commit is not None and at is not None:
        raise BadOption("--commit and --at both name the restore point", hint="give one of them")
    request = RestoreRequest(
        selection=parse_selection(topics or ["*"], exclude or ()),
        renames=parse_renames(rename or []),
        commit=commit,
        time_ms=None if at is None else parse_time(at, now_ms=SystemClock().now_ms()),
        isolation=isolation.value,
    )
    return prepare_restore(open_repository(repo).backup(backup), cluster.admin, request)


def _render_plan(console: Console, report: RestorePlanReport) -> None:
    from rich.table import Table

    table = Table("topic", "to", "partitions", "records", "size", "how")
    for topic in report.topics:
        how = "create" if topic.create else "fill (exists, empty)"
        table.add_row(
            topic.source, topic.target, str(topic.partitions), f"{topic.records:,}", format_size(topic.bytes), how
        )
    console.print(table)
    console.print(
        f"restore {report.restore}: backup {report.backup} as of commit {report.commit} into cluster "
        f"{report.cluster_id}, offsets {report.offsets}, {report.isolation}"
        f"{', continues an unfinished run' if report.resumes else ''}"
    )
    for skipped, reason in report.skipped:
        console.print(f"  skipped: {skipped}: {reason}", markup=False)
    for note in report.notes:
        console.print(f"  note: {note}", markup=False)


def _render_result(console: Console, result: RestoreResult) -> None:
    console.print(f"restore {result.restore}: {result.records:,} records, {format_size(result.bytes)}")
    for name, topic in result.topics.items():
        left_out = f", {topic.invisible_records:,} aborted records left out" if topic.invisible_records else ""
        renamed = f" (from {topic.source})" if topic.source != name else ""
        console.print(f"  {name}{renamed}: {topic.records:,} records in {topic.partitions} partitions{left_out}")
    for skipped, reason in result.skipped:
        console.print(f"  skipped: {skipped}: {reason}", markup=False)
    for name, setting, value in result.held_back:
        console.print(
            f"  held back: {name} does not have the source's {setting}={value} yet: it would delete restored records\n"
            f"    when you are done: kafka-configs.sh --alter --topic {name} --add-config {setting}={value}",
            markup=False,
        )
    console.print(f"the map from source to target offsets is stored under restore {result.restore}")
