"""`offsite backup`: copy topics into the repository."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from offsite.backup.options import parse_limits
from offsite.checkpoint.options import parse_participants, parse_zeebe
from offsite.cli.backup_options import BackupOptions, BackupRunOptions, FollowOptions, OptionalFollowOptions
from offsite.cli.options import Output, takes
from offsite.cli.output import EXIT_PARTIAL, Line, OutputFormat, Table, emit, note
from offsite.cli.telling import NoticeOptions, Telling, telling
from offsite.cli.views.backup import render_result, render_troubles
from offsite.cli.wiring import SparkOptions, connect, open_repository, spark
from offsite.model.errors import BadOption
from offsite.model.names import amount, named
from offsite.model.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from offsite.backup.plan import BackupPlan
    from offsite.follow.options import FollowWords
    from offsite.repository.repository import Repository


_NAMED_MAX = 5
"""Topics named in a line."""

app = typer.Typer(help="Back up topics into the repository.", no_args_is_help=True)


@app.command()
@takes(BackupRunOptions, SparkOptions, OptionalFollowOptions, NoticeOptions)
def run(
    options: BackupRunOptions,
    engine: SparkOptions,
    following: OptionalFollowOptions,
    notices: NoticeOptions,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Copy new records since the last run, and commit them as one restore point.

    A run of many hours commits every 5 minutes, 10 GiB or 10,000 segments. With --follow the run continues until a
    signal stops the run: then copied records are committed, and the exit code is 0.

    Exit code 3: committed, but the source had lost records (holes, logs that were cut back), or some partitions,
    groups, settings of topics or the schema registry could not be read.
    """
    if following.follow:
        _follow(options, following.words, engine, notices, output)
        return
    _refuse_to_follow(options, following.words)
    with telling(notices, command="backup run", repo=options.repo, backup=options.backup) as news:
        _run_once(options, engine, news, output)


def _run_once(options: BackupRunOptions, engine: SparkOptions, news: Telling, output: OutputFormat) -> None:
    from offsite.backup.plan import make_replan, plan_backup
    from offsite.backup.run import run_backup
    from offsite.cli.progress import progress

    request, limits = options.request(), parse_limits(options.words)
    cluster, repository = connect(options.bootstrap, options.kafka_config), open_repository(options.repo)
    with spark(engine.choice(), preload="offsite.backup.copy", limits=limits) as runner:
        plan = plan_backup(repository, cluster.admin, request, slots=runner.slots)
        with (
            _telling_commits(repository, plan),
            progress(f"backup {options.backup}", total_bytes=plan.copy.estimated_bytes) as on_progress,
        ):
            result = run_backup(
                plan,
                repository=repository,
                kafka=cluster.config,
                runner=runner,
                on_progress=on_progress,
                replan=make_replan(repository, cluster.admin, request, slots=runner.slots),
            )
    for topic in result.missing_topics:
        note(f"warning: topic {topic} does not exist")
    _note_gone(result.vanished_topics, result.deleted_topics, result.denied_topics)
    for problem in result.not_read:
        note(f"note: {problem}")
    news.emit(result, output=output, render=render_result, troubles=render_troubles)
    if not result.complete:
        raise typer.Exit(EXIT_PARTIAL)


def _refuse_to_follow(options: BackupRunOptions, words: FollowWords) -> None:
    """Raises `BadOption` for an option that works only in a run that follows."""
    takes_checkpoint = ", or use: offsite checkpoint take"
    for option, is_given, instead in (
        ("--metrics-port", words.get("metrics_port") is not None, ""),
        ("--every", words.get("every") is not None, takes_checkpoint),
        ("--participants", parse_participants(options.applications) is not None, takes_checkpoint),
        ("--zeebe", bool(parse_zeebe(options.clusters)), takes_checkpoint),
        ("--retain", words.get("retain", "off") != "off", ", or use: offsite retention apply"),
    ):
        if is_given:
            raise BadOption(f"{option} works only with --follow", hint=f"add --follow{instead}")


@contextmanager
def _telling_commits(repository: Repository, plan: BackupPlan) -> Iterator[None]:
    """A context for executing `plan`: after an interrupt, print the commits made."""
    from offsite.overview.contents import describe_new_commits

    try:
        yield
    except KeyboardInterrupt:
        note(f"interrupted: {describe_new_commits(repository, plan.backup, since=plan.base.seq)}")
        raise


@app.command()
@takes(BackupRunOptions, SparkOptions, FollowOptions, NoticeOptions)
def follow(
    options: BackupRunOptions,
    engine: SparkOptions,
    following: FollowOptions,
    notices: NoticeOptions,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Copy new records round after round, until SIGINT or SIGTERM. The same as backup run --follow.

    Each round that finds new records commits a restore point. Outages are waited out. After a signal, copied records
    are committed, and the exit code is 0. With --retain, old restore points are deleted between the rounds. The run
    takes the checkpoints that offsite checkpoint take requests, and with --every its own.
    """
    _follow(options, following.words, engine, notices, output)


def _follow(
    options: BackupRunOptions, words: FollowWords, engine: SparkOptions, notices: NoticeOptions, output: OutputFormat
) -> None:
    from offsite.cli.commands.backup_follow import follow_backup
    from offsite.follow.options import parse_follow

    following = parse_follow(words)
    with telling(notices, command="backup follow", repo=options.repo, backup=options.backup) as news:
        follow_backup(options, following, engine=engine, news=news, output=output)


@app.command()
@takes(BackupOptions)
def plan(options: BackupOptions, output: Output = OutputFormat.TABLE) -> None:
    """Show what the next run would copy. Changes nothing, starts no JVM."""
    from offsite.backup.plan import plan_backup
    from offsite.engine.sessions.master import slots

    request = options.request()
    cluster = connect(options.bootstrap, options.kafka_config)
    planned = plan_backup(open_repository(options.repo, looks=True), cluster.admin, request, slots=slots(None))
    deleted = tuple(sorted({deletion.topic for deletion in planned.gone.deleted}))
    _note_gone(planned.gone.vanished, deleted, planned.gone.denied)
    emit(_plan_report(planned), output=output, render=_render_plan)


def _note_gone(vanished: Sequence[str], deleted: Sequence[str], denied: Sequence[str]) -> None:
    """Name missing topics on stderr: in most backups a topic was deleted on purpose at some time, which is no fault."""
    if deleted:
        note(f"note: {_named(deleted)} was deleted at the source; its backed-up records are kept")
    if denied:
        note(f"warning: permission lost to describe {_named(denied)}; earlier commits still hold the records")
    if unseen := sorted({*vanished} - {*deleted} - {*denied}):
        note(f"note: the cluster does not show {_named(unseen)} any more; earlier commits still hold the records")


def _named(topics: Sequence[str]) -> str:
    return named(topics, most=_NAMED_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition:
    """Offsets `[start, end)` copied by the next run."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    backup: str
    cluster_id: str
    continues_from_commit: int
    tasks: int
    estimated_bytes: int
    partitions: tuple[PlannedPartition, ...]
    holes: int
    missing_topics: tuple[str, ...]
    vanished_topics: tuple[str, ...]
    groups: int
    sick: tuple[str, ...]
    cut_back: tuple[str, ...]
    driver_bytes: int
    """Approximate memory needed by the driver."""
    registry: str = ""
    """The schema registry that the run would read; empty without one."""


def _plan_report(planned: BackupPlan) -> PlanReport:
    from offsite.backup.copy_pass import driver_bytes

    starts = {(t.range.topic, t.range.partition): t.range.start for t in reversed(planned.copy.tasks)}
    partitions = tuple(
        PlannedPartition(
            topic=b.topic, partition=b.partition, start=starts.get((b.topic, b.partition), b.end), end=b.end
        )
        for b in planned.copy.bounds
    )
    return PlanReport(
        backup=planned.backup,
        cluster_id=planned.source.cluster_id,
        continues_from_commit=planned.base.seq,
        tasks=len(planned.copy.tasks),
        estimated_bytes=planned.copy.estimated_bytes,
        partitions=partitions,
        holes=len(planned.copy.holes),
        missing_topics=planned.source.missing,
        vanished_topics=planned.gone.vanished,
        groups=len(planned.groups.groups) if planned.groups else 0,
        sick=tuple(
            f"{sick_partition.topic}/{sick_partition.partition}: {sick_partition.error.message}"
            for sick_partition in planned.copy.sick
        ),
        cut_back=tuple(f"{cut.partition_id} from offset {cut.at} to {cut.end}" for cut in planned.cuts),
        driver_bytes=driver_bytes(planned.copy),
        registry="" if planned.registry is None else planned.registry.url,
    )


def _render_plan(report: PlanReport) -> Iterator[Line]:
    table = Table("topic", "partition", "from offset", "to offset", "offsets")
    for part in report.partitions:
        table.add_row(part.topic, str(part.partition), f"{part.start:,}", f"{part.end:,}", f"{part.end - part.start:,}")
    yield table
    for sick in report.sick:
        yield f"  would be left out: {sick}"
    for cut in report.cut_back:
        yield f"  was cut back at the source; the backup would keep the old records as a branch: {cut}"
    if report.registry:
        yield f"  would be read before the commit: the schema registry {report.registry}"
    after = f"after commit {report.continues_from_commit}" if report.continues_from_commit else "first run"
    yield (
        f"backup {report.backup} of cluster {report.cluster_id}, {after}: about {format_size(report.estimated_bytes)} "
        f"in {amount(report.tasks, 'task')}, {amount(report.holes, 'hole')}; {amount(report.groups, 'group')}; "
        f"about {format_size(report.driver_bytes)} of memory for the driver"
    )
