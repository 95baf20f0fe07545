"""`offsite restore`: bring topics back into a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, cast

import typer

from offsite.cli.commands.drill import drill, versions_in_use, who_runs
from offsite.cli.commands.groups import records_flag as same
from offsite.cli.commands.groups import render_applied as render_groups
from offsite.cli.commands.restore_source import RestoreOptions, RestoreRunOptions, backup_to_restore, named_backup
from offsite.cli.options import BackupName, Output, Records, Repo, Yes, takes
from offsite.cli.output import EXIT_PARTIAL, Line, OutputFormat, can_ask, confirm, emit, emit_notice
from offsite.cli.output import note as tell
from offsite.cli.page_file import check_writable, write_page
from offsite.cli.telling import NoticeOptions, Telling, telling
from offsite.cli.views.restore import render_restore_plan, render_what_came_back
from offsite.cli.wiring import SparkOptions, connect, open_repository, spark
from offsite.model.bounds import MAX_OFFSET, MAX_PARTITIONS, whole_number
from offsite.model.errors import BadOption, Damaged
from offsite.model.units import format_time
from offsite.restore.options import parse_restore, parse_restore_limits

if TYPE_CHECKING:
    from offsite.engine.runner import Runner
    from offsite.groups.restored_offsets import OffsetAnswer
    from offsite.kafka.cluster import Cluster
    from offsite.log.range import TopicPartition
    from offsite.repository.backup import Backup
    from offsite.restore.plan import PlannedRestore
    from offsite.restore.result import RestoreResult

Verify = Annotated[
    bool,
    typer.Option("--verify/--no-verify", help="Whether to read all restored records back at the end and compare them."),
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="Continue this restore although another process is running it: the other process can no longer write, "
        "and ends.",
    ),
]

_MATCHES = {
    "exact": "that record",
    "gap": "the next existing record",
    "end": "the end",
    "below": "the first record: the offset lies before the restored range",
    "above": "the end: the offset lies beyond the restored range",
}

app = typer.Typer(help="Restore topics into a cluster.", no_args_is_help=True)


@app.command(name="map")
def map_(
    partition: Annotated[str, typer.Argument(metavar="TOPIC/PARTITION", help="A partition of the source.")],
    offset: Annotated[int, typer.Argument(min=0, max=MAX_OFFSET, help="An offset of the source.")],
    repo: Repo,
    backup: BackupName,
    restore: Annotated[str, typer.Option("--restore", help="Id printed by restore run.")],
    records: Records = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show which target offset corresponds to a source offset. Starts no JVM."""
    from offsite.groups.restored_offsets import map_offset

    opened = open_repository(repo, looks=True, records=records).backup(backup)
    emit(map_offset(opened, restore, _partition(partition), offset), output=output, render=_render_offset)


app.command()(drill)


@app.command()
@takes(RestoreOptions)
def plan(options: RestoreOptions, output: Output = OutputFormat.TABLE) -> None:
    """Show what a restore would do. Changes nothing, starts no JVM."""
    from offsite.restore.plan_report import report_plan

    backup = named_backup(options.repo, options.backup, otherwise="", looks=True, records=options.words.get("records"))
    prepared = _prepared(options, backup, connect(options.bootstrap, options.kafka_config))
    emit(report_plan(prepared), output=output, render=render_restore_plan)


@app.command()
@takes(RestoreRunOptions, SparkOptions, NoticeOptions)
def run(
    options: RestoreRunOptions,
    engine: SparkOptions,
    notices: NoticeOptions,
    verify: Verify = True,
    take_over: TakeOver = False,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Restore topics into empty or new topics; after a crash the same command continues.

    Missing topics are created with the source's partition count and settings. At the end everything is read back and
    compared with the backup: exit code 13 for a difference. Exit code 3: the contents of the backup are restored, but
    were empty, or could not all be read back, or some consumer groups were refused, or some keys or values still begin
    as those with a schema id of the source do. With --archive an archive of another tool is restored, as if imported.
    On a terminal, without --backup, the command asks what to restore and where, and prints the command that needs no
    answers.
    """
    with telling(notices, command="restore run", repo=options.repo or "", backup=options.backup or "") as news:
        _run(options, engine, news, verify=verify, take_over=take_over, yes=yes, output=output)


def _run(
    options: RestoreRunOptions,
    engine: SparkOptions,
    news: Telling,
    *,
    verify: bool,
    take_over: bool,
    yes: bool,
    output: OutputFormat,
) -> None:
    from offsite.restore.plan_report import report_plan

    check_writable(options.report)
    if not yes and output is OutputFormat.TABLE:
        options = _asked(options, engine, verify=verify, take_over=take_over)
        news.concern(options.backup or "")
    cluster = connect(options.bootstrap, options.kafka_config)
    with (
        spark(
            engine.choice(), preload="offsite.restore.write.bundle", limits=parse_restore_limits(options.words)
        ) as runner,
        backup_to_restore(
            options, runner, cluster_id=lambda: cluster.admin.cluster().cluster_id, take_over=take_over
        ) as backup,
    ):
        prepared = _prepared(options, backup, cluster)
        runner.refuse_strangers()
        if not yes:
            emit_notice(report_plan(prepared), render=render_restore_plan)
            confirm(f"restore into cluster {prepared.record.cluster_id}?")
        result = _restored(prepared, cluster, runner, verify=verify, take_over=take_over)
        render = partial(_render_result, records=options.words.get("records"))
        news.emit(result, output=output, render=render if options.keeps_backup else _render_without_backup)
        if options.report is not None:
            write_page(options.report, _proof_page(prepared, result))
        if result.verified is False:
            raise typer.Exit(Damaged.exit_code)
        if result.groups is not None and not result.groups.complete:
            raise typer.Exit(EXIT_PARTIAL)
    leaves_ids = result.schema_ids is not None and result.schema_ids.left > 0
    if leaves_ids or (verify and result.verified is None):
        raise typer.Exit(EXIT_PARTIAL)


def _asked(options: RestoreRunOptions, engine: SparkOptions, *, verify: bool, take_over: bool) -> RestoreRunOptions:
    """The options, with the answers of a person where nothing says what to restore."""
    if options.backup is not None or options.archive is not None or not can_ask():
        return options
    from offsite.cli.commands.restore_questions import ask_restore, same_command

    options = ask_restore(options)
    tell(f"the same without questions: {same_command(options, engine, verify=verify, take_over=take_over)}")
    return options


def _prepared(options: RestoreOptions, backup: Backup, cluster: Cluster) -> PlannedRestore:
    from offsite.restore.plan import prepare_restore

    registry = options.target_registry()
    return prepare_restore(backup, cluster.admin, parse_restore(options.words), registry=registry)


def _restored(
    prepared: PlannedRestore, cluster: Cluster, runner: Runner, *, verify: bool, take_over: bool
) -> RestoreResult:
    from offsite.cli.progress import progress_of_two, topics_listener
    from offsite.restore.run import run_restore
    from offsite.restore.topic_progress import watching_topics

    name = prepared.plan.backup
    with (
        progress_of_two(f"restore {name}", f"compare {name}", total_bytes=prepared.plan.raw_bytes) as progress,
        watching_topics(prepared, cluster, topics_listener()),
    ):
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
            for line in getattr(interrupt, "__notes__", ()):
                tell(line)
            raise


def _proof_page(prepared: PlannedRestore, result: RestoreResult) -> str:
    from offsite.model.plain import plain
    from offsite.repository.restores.record import get_outcome
    from offsite.restore.restore_report import restore_page
    from offsite.stores.wrapped_store import display_now_ms

    records = prepared.backup.record_store
    named = {
        "Repository": prepared.backup.store.url,
        "Restored to": f"cluster {prepared.record.cluster_id}",
        "Began, ended": f"{format_time(prepared.record.created_at_ms)}, {format_time(display_now_ms(records))} "
        "(the repository's clock)",
        "Run by": who_runs(),
        "With": ", ".join(f"{name} {version}" for name, version in versions_in_use().items()),
    }
    document = cast("Mapping[str, object]", plain(result))
    return restore_page(document, get_outcome(records, prepared.layout), named)


def _render_result(result: RestoreResult, *, records: str | None) -> Iterator[Line]:
    yield from render_what_came_back(result)
    yield f"the map from source to target offsets is stored under restore {result.restore}"
    if result.groups is None:
        yield f"next: offsite groups plan --backup {result.backup} --restore {result.restore}{same(records)}"
    else:
        yield from render_groups(result.groups, records=records)


def _render_without_backup(result: RestoreResult) -> Iterator[Line]:
    """Show the result for a temporary backup: the way back is printed after its removal."""
    yield from render_what_came_back(result)
    if result.groups is not None:
        yield from render_groups(replace(result.groups, change=""))


def _partition(text: str) -> TopicPartition:
    from offsite.log.range import TopicPartition

    topic, _, number = text.rpartition("/")
    partition = whole_number(number, most=MAX_PARTITIONS - 1)
    if not topic or partition is None:
        raise BadOption(f"{text[:100]!r} is not a partition", hint="write it as orders/0")
    return TopicPartition(topic=topic, partition=partition)


def _render_offset(answer: OffsetAnswer) -> Iterator[Line]:
    yield (
        f"{answer.source_topic}/{answer.partition} offset {answer.source_offset} is offset {answer.target_offset} of "
        f"{answer.target_topic}/{answer.partition}: {_MATCHES[answer.match]}"
    )
