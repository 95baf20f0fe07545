"""`offsite restore`: bring topics back into a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.commands.drill import drill
from offsite.cli.commands.groups import render_applied as render_groups
from offsite.cli.commands.restore_map import map_
from offsite.cli.commands.restore_source import RestoreRunOptions, backup_to_restore
from offsite.cli.options.common import Output, SparkMaster, Yes
from offsite.cli.options.option_group import takes
from offsite.cli.options.restore import RestoreOptions, named_backup
from offsite.cli.output import EXIT_PARTIAL, OutputFormat, confirm, emit, emit_notice
from offsite.cli.output import note as tell
from offsite.cli.views.cut_view import render_cuts, render_incarnations
from offsite.cli.views.offsets_view import describe_mode, render_offsets
from offsite.cli.views.proof_view import render_lacking, render_open
from offsite.cli.views.settings_view import render_applied, render_metadata_plan, render_topic_diffs
from offsite.cli.wiring import connect, spark
from offsite.model.errors import Damaged
from offsite.model.size import format_size
from offsite.services.restore.options import parse_restore

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.repository.backup import Backup
    from offsite.services.cluster import Cluster
    from offsite.services.restore.planned import PlannedRestore
    from offsite.services.restore.report.plan import RestorePlanReport, TopicPlanReport
    from offsite.services.restore.report.result import RestoreResult
    from offsite.spark.runner import Runner

Verify = Annotated[
    bool,
    typer.Option("--verify/--no-verify", help="Whether to read everything back at the end and compare."),
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="Go on with this restore although another process has it in hand: that one is shut out, and ends.",
    ),
]

app = typer.Typer(help="Restore topics into a cluster.", no_args_is_help=True)
app.command(name="map")(map_)
app.command()(drill)


@app.command()
@takes(RestoreOptions)
def plan(options: RestoreOptions, output: Output = OutputFormat.TABLE) -> None:
    """Show what a restore would do. Changes nothing, starts no JVM."""
    from offsite.services.restore.report.plan import report_plan

    backup = named_backup(options.repo, options.backup, otherwise="")
    prepared = _prepared(options, backup, connect(options.bootstrap, options.kafka_config))
    emit(report_plan(prepared), output=output, render=_render_plan)


@app.command()
@takes(RestoreRunOptions)
def run(
    options: RestoreRunOptions,
    verify: Verify = True,
    take_over: TakeOver = False,
    spark_master: SparkMaster = None,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Restore topics into empty or new topics; after a crash the same command continues.

    Topics that do not exist are created with the source's partition count and settings. At the end everything is read
    back and compared with the backup: exit code 13 when it is not the same. Exit code 3: what the backup holds is
    restored, but that was nothing, or not all could be read back, or some consumer groups were refused. With --archive
    an archive of another tool is restored, as if it had been imported.
    """
    from offsite.services.restore.report.plan import report_plan

    cluster = connect(options.bootstrap, options.kafka_config)
    with (
        spark(spark_master, preload="offsite.copy.restore.task") as runner,
        backup_to_restore(
            options, runner, cluster_id=lambda: cluster.admin.cluster().cluster_id, take_over=take_over
        ) as backup,
    ):
        prepared = _prepared(options, backup, cluster)
        if not yes:
            emit_notice(report_plan(prepared), render=_render_plan)
            confirm(f"restore into cluster {prepared.record.cluster_id}?")
        result = _restored(prepared, cluster, runner, verify=verify, take_over=take_over)
        emit(result, output=output, render=_render_result if options.keeps_backup else _render_what_came_back)
        if result.verified is False:
            raise typer.Exit(Damaged.exit_code)
    if (verify and result.verified is None) or (result.groups is not None and result.groups.failed):
        raise typer.Exit(EXIT_PARTIAL)


def _prepared(options: RestoreOptions, backup: Backup, cluster: Cluster) -> PlannedRestore:
    from offsite.services.restore.planned import prepare_restore

    return prepare_restore(backup, cluster.admin, parse_restore(options.words))


def _restored(
    prepared: PlannedRestore, cluster: Cluster, runner: Runner, *, verify: bool, take_over: bool
) -> RestoreResult:
    from offsite.cli.progress import progress_of_two
    from offsite.services.restore.run import run_restore

    name = prepared.plan.backup
    with progress_of_two(f"restore {name}", f"compare {name}", total_bytes=prepared.plan.raw_bytes) as progress:
        try:
            return run_restore(
                prepared,
                cluster=cluster,
                runner=runner,
                verify=verify,
                take_over=take_over,
                on_progress=progress[0],
                on_proof=progress[1],
            )
        except KeyboardInterrupt as interrupt:
            for each in getattr(interrupt, "__notes__", ()):
                tell(each)
            raise


def _render_plan(console: Console, report: RestorePlanReport) -> None:
    from rich.table import Table

    table = Table("topic", "to", "partitions", "records", "size", "how", "offsets")
    for topic in report.topics:
        how = "create" if topic.create else "fill (exists, empty)"
        table.add_row(
            _source_name(topic),
            topic.target,
            str(topic.partitions),
            f"{topic.records:,}",
            format_size(topic.bytes),
            how,
            describe_mode(topic.offsets),
        )
    console.print(table)
    console.print(
        f"restore {report.restore}: backup {report.backup} as of commit {report.commit} into cluster "
        f"{report.cluster_id}, offsets {report.offsets}, {report.isolation}"
        f"{', continues an unfinished run' if report.resumes else ''}"
    )
    _render_newer(console, report)
    render_incarnations(console, report.incarnations)
    render_cuts(console, report.cuts)
    if report.lacking:
        console.print("  the backup itself lacks, and so will what is restored:")
        render_lacking(console, report.lacking)
    render_offsets(console, report)
    render_topic_diffs(console, report.topics)
    render_metadata_plan(console, report.metadata)
    for skipped, reason in report.skipped:
        console.print(f"  skipped: {skipped}: {reason}")
    for note in report.notes:
        console.print(f"  note: {note}")


def _render_newer(console: Console, told: RestorePlanReport | RestoreResult) -> None:
    if told.newer_commit is None:
        return
    console.print(
        f"  the backup has commit {told.newer_commit} by now: commit {told.commit} was the one when this began"
    )
    console.print("  to restore that one instead: delete the target topics, and run the same command again")


def _held_back(topic: str, setting: str, value: str) -> tuple[str, str]:
    whose = f"the source's {setting}={value}" if value else f"the brokers' default {setting}"
    change = f"--add-config {setting}={value}" if value else f"--delete-config {setting}"
    return (
        f"  held back: {topic} does not have {whose} yet: it would delete restored records",
        f"    when you are done: kafka-configs.sh --alter --topic {topic} {change}",
    )


def _source_name(topic: TopicPlanReport) -> str:
    return f"{topic.source} (schemas)" if topic.holds_schemas else topic.source


def _render_result(console: Console, result: RestoreResult) -> None:
    _render_what_came_back(console, result)
    console.print(f"the map from source to target offsets is stored under restore {result.restore}")
    if result.groups is None:
        console.print(f"next: offsite groups plan --backup {result.backup} --restore {result.restore}")
    else:
        render_groups(console, result.groups)


def _render_verdict(console: Console, result: RestoreResult) -> None:
    if result.problem:
        console.print(f"  {result.problem}")
    elif result.verified and not result.lacking:
        console.print("  verified: every record was read back and is what the backup holds")
    elif result.verified:
        console.print("  verified: every record that the backup holds was read back and is the same")
    if result.lacking:
        console.print("  the backup itself lacks:")
        render_lacking(console, result.lacking)
    render_open(console, result.findings, result.uncompared)
    if result.findings or result.uncompared:
        console.print("  consumer groups were left as they are")
    if result.uncompared:
        ends = f"--backup {result.backup} --restore {result.restore} --against BROKERS"
        console.print(f"  compare again: offsite verify {ends}")


def _render_what_came_back(console: Console, result: RestoreResult) -> None:
    size = format_size(result.bytes)
    console.print(f"restore {result.restore}: {result.records:,} records, {size}, as of commit {result.commit}")
    _render_newer(console, result)
    for name, topic in result.topics.items():
        invisible = "stay aborted" if topic.same_offsets else "left out"
        aborted = f", {topic.invisible_records:,} aborted records {invisible}" if topic.invisible_records else ""
        kept = " at their offsets" if topic.same_offsets else ""
        renamed = f" (from {topic.source})" if topic.source != name else ""
        console.print(f"  {name}{renamed}: {topic.records:,} records in {topic.partitions} partitions{kept}{aborted}")
    for skipped, reason in result.skipped:
        console.print(f"  skipped: {skipped}: {reason}")
    render_incarnations(console, result.incarnations)
    for name, setting, value in result.held_back:
        console.print(*_held_back(name, setting, value), sep="\n")
    _render_verdict(console, result)
    for name, setting, reason in result.left_out:
        console.print(f"  left out: {name} does not have the source's {setting}: {reason}")
    render_applied(console, result.metadata)
    for note in result.notes:
        console.print(f"  note: {note}")
