"""`offsite init|list|show|status`: create a repository and look into it. No command here starts a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.live import can_be_live
from offsite.cli.options import (
    Against,
    KafkaConfigFile,
    OptionalRepo,
    Output,
    Records,
    Repo,
    check_not_typed,
    checked_places,
    takes,
)
from offsite.cli.output import Line, OutputFormat, Table, emit, first_lines
from offsite.cli.page_file import write_page
from offsite.cli.telling import NoticeOptions, telling
from offsite.cli.views.repository import (
    hole_lines,
    render_cluster_settings,
    render_consistency,
    render_not_carried,
    render_registry,
    render_status,
    render_topic_settings,
)
from offsite.cli.wiring import connect, open_repository
from offsite.model.errors import BadOption, Damaged
from offsite.model.names import amount, named
from offsite.model.units import format_size, format_time

if TYPE_CHECKING:
    from offsite.overview.contents import BackupDetail, BackupList
    from offsite.overview.status import Status
    from offsite.repository.repository import Repository

HtmlFile = Annotated[
    Path | None, typer.Option("--html", help="Also write the status into this file, as one page with plots.")
]
Watch = Annotated[
    bool,
    typer.Option(
        "--watch",
        help="On a terminal, read the status every 5 seconds and show it in place, with the growth of topics, until "
        "Ctrl-C. Elsewhere it is printed once.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="A YAML file of several repositories, as of offsite serve."),
]
EXIT_ATTENTION = 3
RESTORE_POINTS_SHOWN = 10
"""Newest restore points printed by `show` for people; `-o json` has all."""
_LATE_MAX = 12
_BESIDE_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class InitReport:
    """`beside`: the first foreign objects at the place."""

    repository: str
    repository_id: str
    beside: tuple[str, ...] = ()


def init(
    context: typer.Context,
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="[REPO]", help="A folder or a URL (s3://, gs://, az://). Or use --repo.", callback=checked_places
        ),
    ] = None,
    repo: OptionalRepo = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Create a new repository in an empty folder or prefix."""
    from offsite.repository.repository import Repository, strangers_around
    from offsite.stores.open_store import open_store

    source = context.get_parameter_source("repo")
    if place and repo not in {None, place} and source is not None and source.name == "COMMANDLINE":
        raise BadOption(f"{place} and --repo {repo} both name the repository", hint="give one of them")
    if not (chosen := place or repo):
        raise BadOption("no repository is named", hint="name a folder or a URL: offsite init s3://bucket/prefix")
    repository = Repository.init(open_store(chosen))
    report = InitReport(
        repository=repository.store.url,
        repository_id=repository.descriptor.repository_id,
        beside=tuple(islice(strangers_around(repository.store), _BESIDE_MAX)),
    )
    emit(report, output=output, render=_render_init)


def list_(repo: Repo, output: Output = OutputFormat.TABLE) -> None:
    """List the backups of the repository. Exit code 13 when a backup is damaged or unreadable."""
    from offsite.overview.contents import list_backups

    result = list_backups(open_repository(repo, looks=True))
    emit(result, output=output, render=_render_list)
    if any(backup.problem for backup in result.backups):
        raise typer.Exit(Damaged.exit_code)


def show(
    backup: Annotated[str, typer.Argument(help="Name of the backup.")],
    repo: Repo,
    commit: Annotated[int | None, typer.Option("--commit", help="As of this commit [default: the newest].")] = None,
    metadata: Annotated[
        bool, typer.Option("--metadata", help="Also settings of topics, ACLs, client quotas and SCRAM users.")
    ] = False,
    registry: Annotated[
        bool, typer.Option("--registry", help="Also the subjects, versions and schemas of the schema registry.")
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show what a backup holds: topics, offsets, restore points. Its holes are listed too."""
    from offsite.overview.contents import show_backup

    opened = open_repository(repo, looks=True).backup(backup)
    detail = show_backup(opened, commit=commit, with_settings=metadata, with_registry=registry)
    emit(detail, output=output, render=partial(_render_detail, with_settings=metadata, with_registry=registry))


@takes(NoticeOptions)
def status(  # the options of the command
    notices: NoticeOptions,
    context: typer.Context,
    repo: OptionalRepo = None,
    config: ConfigFile = None,
    against: Against = None,
    kafka_config: KafkaConfigFile = None,
    html: HtmlFile = None,
    watch: Watch = False,
    records: Records = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Am I safe? All backups on one screen.

    Exit code 3 when something needs attention, 13 when something is damaged or gone. With --against every topic is also
    compared with the living cluster: what is not backed up yet, and what the cluster has lost. With --config all
    repositories of a file of offsite serve are shown, each beside its cluster.
    """
    if config is not None:
        check_not_typed(context, ("repo", "against", "kafka_config", "html", "watch", "records"), beside="--config")
        _status_of_several(notices, config, output)
        return
    if repo is None:
        raise BadOption("no repository is named", hint="give --repo URL, or several in a file: --config FILE")
    if watch and (html is not None or against is not None):
        other = "--html" if html is not None else "--against"
        raise BadOption(f"--watch and {other} do not go together", hint=f"omit --watch, or {other}")
    with telling(notices, command="status", repo=repo, backup="") as news:
        repository = open_repository(repo, looks=True, records=records)
        if watch and output is OutputFormat.TABLE and can_be_live():
            from offsite.cli.commands.status_watch import StatusWatch
            from offsite.model.clock import SystemClock

            StatusWatch(repository, SystemClock(), news.verdicts() if news.is_heard else None).run()
        report = _read_status(repository, against, kafka_config)
        if html is not None:
            _write_page(repository, report, html)
        news.emit(report, output=output, render=render_status, troubles=_problems)
        if not report.safe:
            is_damaged = any(backup.damaged for backup in report.backups)
            raise typer.Exit(Damaged.exit_code if is_damaged else EXIT_ATTENTION)
        sources = [backup.source for backup in report.backups if backup.source is not None]
        if any(source.alarms or source.problem for source in sources):
            raise typer.Exit(EXIT_ATTENTION)


def _status_of_several(notices: NoticeOptions, config: Path, output: OutputFormat) -> None:
    from offsite.cli.commands.status_several import read_several, render_several, troubles_of

    with telling(notices, command="status", repo=str(config), backup="") as news:
        report = read_several(config)
        news.emit(report, output=output, render=render_several, troubles=troubles_of)
        if any(row.damaged for row in report.repositories):
            raise typer.Exit(Damaged.exit_code)
        if not report.safe or any(row.source_problems for row in report.repositories):
            raise typer.Exit(EXIT_ATTENTION)


def _read_status(repository: Repository, against: str | None, kafka_config: Path | None) -> Status:
    from offsite.overview.status import read_status

    report = read_status(repository, looks=True)
    return report if against is None else _beside_source(repository, report, against, kafka_config)


def _beside_source(repository: Repository, report: Status, against: str, kafka_config: Path | None) -> Status:
    from offsite.model.clock import SystemClock
    from offsite.overview.source_look import impatient
    from offsite.overview.source_watch import SourceWatch

    cluster = connect(against, kafka_config)
    watch = SourceWatch(
        open_cluster=lambda: impatient(cluster),
        list_backups=repository.backups,
        open_backup=repository.backup,
        clock=SystemClock(),
    )
    watch.look()
    return report.beside(watch.comparison)


def _problems(report: Status) -> Iterator[str]:
    from offsite.overview.verdict import source_alarm

    if alarm := source_alarm(report):
        yield alarm
    for backup in report.backups:
        yield from (f"{backup.backup}: {problem}" for problem in backup.problems)
        if backup.source is not None and backup.source.problem:
            yield f"{backup.backup}: {backup.source.problem}"


def _write_page(repository: Repository, report: Status, file: Path) -> None:
    from offsite.overview.status_page import read_glances, status_page
    from offsite.stores.wrapped_store import display_now_ms

    glances = read_glances(report, repository.backup)
    write_page(file, status_page(report, glances, display_now_ms(repository.store)))


def _render_init(report: InitReport) -> Iterator[Line]:
    yield f"repository {report.repository_id} is ready at {report.repository}"
    if report.beside:
        yield (
            f"note: other objects are at the same place ({named(report.beside, most=3)}); offsite ignores them. A "
            "separate folder or prefix is easier to copy, protect and delete"
        )
    yield f"next: offsite backup run --repo {report.repository} --bootstrap HOST:PORT --backup NAME --topics '*'"


def _render_list(result: BackupList) -> Iterator[Line]:
    if not result.backups:
        yield f"{result.repository} has no backup yet"
        return
    table = Table("backup", "topics", "restore points", "last", "records", "size", "stored", "holes")
    for backup in result.backups:
        table.add_row(
            backup.backup,
            str(backup.topics),
            str(backup.restore_points),
            format_time(backup.last_commit_ms) if backup.restore_points else "never",
            f"{backup.records:,}",
            format_size(backup.bytes),
            format_size(backup.stored_bytes),
            str(backup.holes),
        )
    yield table
    for backup in result.backups:
        if backup.problem:
            yield f"{backup.backup} is DAMAGED: {backup.problem}"


def _render_holes(detail: BackupDetail) -> Iterator[Line]:
    yield from hole_lines(detail.holes, begin="hole: ")
    if detail.expected_deletions:
        topics = {hole.topic for hole in detail.expected_deletions}
        yield (
            f"expected deletions in {amount(len(topics), 'topic')}, no loss: all groups had read the records, or "
            "--expect-deletes names the topic (-o json lists them)"
        )
    yield from first_lines(detail.late, str, most=_LATE_MAX, more="and {:,} more such topics (-o json has all)")
    if detail.pins:
        yield f"holes as of commit {detail.commit}; offsite status also counts holes of pinned restore points"


def _render_detail(detail: BackupDetail, *, with_settings: bool = False, with_registry: bool = False) -> Iterator[Line]:
    yield from _render_contents(detail)
    if with_settings:
        yield from render_topic_settings(detail.topics)
        yield from render_cluster_settings(detail.settings)
    if with_registry:
        yield from render_registry(detail.registry)


def _render_contents(detail: BackupDetail) -> Iterator[Line]:
    origin = f"from {detail.origin}" if detail.origin else f"of cluster {detail.summary.cluster_id}"
    yield f"backup {detail.summary.backup} {origin}, topics {detail.selection}"
    for lack in detail.fidelity:
        yield f"  not in the archive: {lack}"
    table = Table("topic", "partition", "offsets", "records", "stored", "newest record")
    for topic in detail.topics:
        for part in topic.partitions:
            newest = format_time(topic.newest_record_ms) if topic.newest_record_ms >= 0 else "-"
            table.add_row(
                f"{topic.topic} (schemas)" if topic.holds_schemas else topic.topic,
                str(part.partition),
                f"[{part.start:,}, {part.end:,})",
                f"{part.records:,}",
                format_size(part.stored_bytes),
                newest if part.partition == 0 else "",
            )
    yield table
    for topic in detail.topics:
        if topic.deleted_ms >= 0:
            named = f"{topic.topic} ({topic.topic_id[:8]})" if topic.topic_id else topic.topic
            yield f"deleted at the source at {format_time(topic.deleted_ms)} or before, kept in the backup: {named}"
    yield from _render_holes(detail)
    for branch in detail.branches:
        yield (
            f"branch {branch.branch} of {branch.topic}/{branch.partition}, {amount(branch.records, 'record')}: {branch}"
        )
    points = Table("commit", "time", "records", "size", "holes")
    for point in detail.restore_points[-RESTORE_POINTS_SHOWN:]:
        points.add_row(
            str(point.seq),
            format_time(point.committed_at_ms),
            f"{point.records:,}",
            format_size(point.raw_bytes),
            str(point.holes),
        )
    yield points
    for pin in detail.pins:
        until = f"until {format_time(pin.until_ms)}" if pin.until_ms else "for ever"
        yield f"pinned: commit {pin.seq}, {until}: {pin.reason}"
    yield f"{amount(len(detail.restore_points), 'restore point')}, shown as of commit {detail.commit}"
    if detail.registry_commit:
        yield f"the schema registry is held, as of commit {detail.registry_commit} (--registry lists it)"
    yield from render_not_carried(detail.not_carried)
    yield from _render_consistency(detail)


def _render_consistency(detail: BackupDetail) -> Iterator[Line]:
    if detail.consistency is not None:
        yield f"a restore of commit {detail.commit} takes:"
        yield from render_consistency(detail.consistency)
    if detail.default is not None and detail.default.newer is not None:
        yield f"without --commit a restore takes commit {detail.default.commit}: {detail.default.newer}"
