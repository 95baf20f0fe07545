"""`offsite groups`: consumer groups of a backup, and setting groups on a cluster. No command here starts a JVM."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import BackupName, Bootstrap, KafkaConfigFile, Output, Records, Repo, Yes, takes
from offsite.cli.output import (
    EXIT_PARTIAL,
    Line,
    OutputFormat,
    Table,
    confirm,
    emit,
    emit_notice,
    first_lines,
    remark_lines,
)
from offsite.cli.views.repository import render_gone, render_kinds, render_reads_again, render_share_positions
from offsite.cli.wiring import connect, open_repository
from offsite.model.errors import BadOption
from offsite.model.names import amount, named
from offsite.model.selection import only_these, parse_groups, split_all

if TYPE_CHECKING:
    from offsite.groups.missing_records import RefusedOffset
    from offsite.groups.report import GroupPlanReport, ShownGroups
    from offsite.groups.run import AppliedGroups, PlannedGroups
    from offsite.groups.undo import UndoneGroups
    from offsite.kafka.cluster import Cluster
    from offsite.kafka.groups import GroupFailure
    from offsite.log.group_offsets import GroupOnTopic

app = typer.Typer(help="Set consumer groups to their offsets in a backup.", no_args_is_help=True)

_NAMED_MAX = 12
"""Groups named in a line."""
ROWS_SHOWN = 200
"""Rows of a table for people; `-o json` has all."""
_HOW = {
    "gap": "next record",
    "below": "before the log: first record",
    "above": "beyond the log: end",
    "missing": "no such partition",
    "refused": "refused, see below",
    "behind": "next record: some were lost at the source",
    "start": "first record",
}
"""The words of `translation.MATCHES` that do not speak for themselves."""

Groups = Annotated[
    list[str] | None, typer.Option("--groups", help="Groups: all, or patterns [default: all].", callback=split_all)
]
Commit = Annotated[int | None, typer.Option("--commit", help="As of this commit [default: the newest].")]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        help="As of this time: exactly with a backup made with --group-history, else the newest commit before it.",
    ),
]
Restore = Annotated[
    str | None,
    typer.Option(
        "--restore", help="Id of a restore: translate offsets with its maps [default: offsets as stored in the backup]."
    ),
]
Rename = Annotated[
    list[str] | None,
    typer.Option(
        "--rename", help="old=new: the topic's name on the cluster; not needed with --restore.", callback=split_all
    ),
]
Clamp = Annotated[
    bool,
    typer.Option(
        "--clamp",
        help="With --groups: also set offsets that would skip missing records or repeat work, to the next existing "
        "record or to the end.",
    ),
]
Change = Annotated[
    str | None,
    typer.Option(
        "--change", help="Id printed by apply [default: the newest change of this cluster made on this machine]."
    ),
]


AcceptRollback = Annotated[
    bool,
    typer.Option(
        "--accept-rollback",
        help="Continue even if this machine has seen a newer state of the backup: its store was set back.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """Options of plan and apply, as typed: the groups to set."""

    repo: Repo
    backup: BackupName
    groups: Groups = None
    restore: Restore = None
    records: Records = None
    commit: Commit = None
    at: At = None
    rename: Rename = None
    clamp: Clamp = False
    accept_rollback: AcceptRollback = False
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None


@app.command()
def show(
    repo: Repo,
    backup: BackupName,
    groups: Groups = None,
    commit: Commit = None,
    at: At = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the groups of a backup, and their lag."""
    from offsite.groups.report import show_groups

    opened = open_repository(repo, looks=True).backup(backup)
    shown = show_groups(opened, groups=parse_groups(groups or ()), commit=commit, at=at)
    emit(shown, output=output, render=_render_show)


@app.command()
@takes(GroupOptions)
def plan(options: GroupOptions, output: Output = OutputFormat.TABLE) -> None:
    """Show where each group would continue. Changes nothing."""
    from offsite.groups.report import report_groups

    planned = _prepare(options, connect(options.bootstrap, options.kafka_config), looks=True)
    emit(report_groups(planned), output=output, render=_render_plan)


@app.command()
@takes(GroupOptions)
def apply(options: GroupOptions, yes: Yes = False, output: Output = OutputFormat.TABLE) -> None:
    """Set the committed offsets of each group, after saving the present offsets.

    Exit code 3: some groups were refused, such as groups with active members, or offsets that would skip missing
    records; all other groups are set.
    """
    from offsite.groups.report import report_groups
    from offsite.groups.run import apply_groups

    cluster = connect(options.bootstrap, options.kafka_config)
    planned = _prepare(options, cluster)
    if not yes:
        emit_notice(report_groups(planned), render=_render_plan)
        confirm(f"commit these offsets on cluster {planned.change.cluster_id}?")
    result = apply_groups(planned, cluster.admin)
    emit(result, output=output, render=partial(render_applied, records=options.records))
    if not result.complete:
        raise typer.Exit(EXIT_PARTIAL)


@app.command()
def undo(
    repo: Repo,
    backup: BackupName,
    change: Change = None,
    records: Records = None,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfigFile = None,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Set groups back to their offsets from before an apply; offsets that the apply added are removed.

    Exit code 3: some groups were refused, and the same command tries the groups again; or share groups keep positions,
    because their positions from before are not known.
    """
    from offsite.groups.undo import find_change, undo_groups

    opened, cluster = open_repository(repo, records=records).backup(backup), connect(bootstrap, kafka_config)
    group_change = find_change(opened, cluster.admin, change)
    if not yes:
        confirm(f"undo change {group_change.change} on cluster {group_change.cluster_id}?")
    result = undo_groups(opened, cluster.admin, group_change)
    emit(result, output=output, render=_render_undone)
    if not result.complete:
        raise typer.Exit(EXIT_PARTIAL)


def _prepare(options: GroupOptions, cluster: Cluster, *, looks: bool = False) -> PlannedGroups:
    from offsite.groups.run import GroupsRequest, prepare_groups
    from offsite.model.topic_choices import parse_renames

    if options.clamp and not options.groups:
        raise BadOption("--clamp sets groups that would skip or repeat work", hint="say which: --groups NAME")
    request = GroupsRequest(
        groups=parse_groups(options.groups or ()),
        restore=options.restore,
        commit=options.commit,
        at=options.at,
        renames=parse_renames(options.rename or ()),
        clamp=options.clamp,
        accept_rollback=options.accept_rollback,
    )
    repository = open_repository(options.repo, looks=looks, records=options.records)
    return prepare_groups(repository.backup(options.backup), cluster.admin, request)


def _render_show(shown: ShownGroups) -> Iterator[Line]:
    table = Table("group", "type", "state", "topic", "partitions", "behind")
    rows = [(group, topic) for group in shown.groups for topic in group.topics]
    for group, topic in rows[:ROWS_SHOWN]:
        behind = "-" if topic.lag is None else f"{topic.lag:,}"
        unset = sum(offset < 0 for offset in topic.offsets.values())
        partitions = f"{len(topic.offsets)} ({unset} without a position)" if unset else str(len(topic.offsets))
        table.add_row(group.group, group.kind or "-", group.state or "-", topic.topic, partitions, behind)
    yield table
    yield from _render_rest(len(rows))
    yield from remark_lines(shown.notes)
    yield from render_gone(shown.gone)
    yield f"{amount(len(shown.groups), 'group')} of backup {shown.backup} as of commit {shown.commit} ({shown.origin})"


def _render_plan(report: GroupPlanReport) -> Iterator[Line]:
    table = Table("group", "type", "topic", "partition", "in the backup", "now", "then", "how")
    rows = [(group, offset) for group in report.groups for offset in group.offsets]
    for group, offset in rows[:ROWS_SHOWN]:
        name = f"{group.group} (active)" if group.active else group.group
        offsets = (_offset(offset.source), _offset(offset.current), _offset(offset.new))
        how = _HOW.get(offset.how, offset.how)
        table.add_row(name, group.kind or "-", offset.target, str(offset.partition), *offsets, how)
    yield table
    yield from _render_rest(len(rows))
    for topic in report.absent_topics:
        yield f"  topic {topic} is not on the cluster: its offsets are left out"
    yield from render_share_positions(report.share_positions)
    yield from render_reads_again(report.reads_again)
    yield from _render_untold(report.untold)
    yield from _render_refused(report.refused)
    yield from remark_lines(report.notes)
    yield from render_gone(report.gone)
    yield from (f"  group {failure.group} will not be changed: {failure.message}" for failure in report.failed)
    counts = report.counts
    yield (
        f"{amount(len(report.groups), 'group')} of backup {report.backup} as of commit {report.commit} "
        f"({report.origin}): {amount(counts.to_set, 'offset')} to set, {counts.unchanged:,} already set, "
        f"{counts.clamped:,} clamped to the log, {counts.missing:,} without a partition, {counts.refused:,} refused"
    )


def records_flag(records: str | None) -> str:
    """Return the option for a repeated command."""
    return "" if records is None else f" --records {shlex.quote(records)}"


def render_applied(result: AppliedGroups, *, records: str | None = None) -> Iterator[Line]:
    """Show the groups now in place; also the last lines of a restore."""
    yield (
        f"{amount(result.groups, 'group is', 'groups are')} set: {amount(result.offsets_set, 'offset')} set, "
        f"{result.unchanged:,} already set"
    )
    left_alone = {failure.group for failure in result.failed} | {refused.group for refused in result.refused}
    if kinds := [kind for group, kind in result.kinds.items() if group not in left_alone]:
        yield f"  types: {render_kinds(kinds)}"
    yield from render_share_positions(result.share_positions)
    yield from render_reads_again(result.reads_again)
    yield from _render_untold(result.untold)
    yield from _render_refused(result.refused)
    if result.refused:
        groups = sorted({refused.group for refused in result.refused})
        they, them = ("they", "them") if len(groups) > 1 else ("it", "it")
        names, patterns = named(groups, most=_NAMED_MAX), shlex.quote(only_these(groups[:_NAMED_MAX]))
        restore = f" --restore {result.restore}" if result.restore else ""
        yield (
            f"  do not start {names} before you decide: {they} would skip or repeat work. To set {them} anyway: "
            f"offsite groups apply --backup {result.backup}{restore} --groups {patterns} --clamp{records_flag(records)}"
        )
    if result.behind:
        yield (
            f"  {amount(result.behind, 'offset points', 'offsets point')} to records that the source had deleted: "
            "their groups continue at the next record"
        )
    if early := result.clamped - len(result.reads_again):
        yield f"  warning: {amount(early, 'offset was', 'offsets were')} before the log, and set to its first record"
    if result.missing:
        yield f"  {amount(result.missing, 'offset has', 'offsets have')} no partition on the cluster: left out"
    for topic in result.absent_topics:
        yield f"  topic {topic} is not on the cluster: its offsets were left out"
    yield from remark_lines(result.notes)
    yield from render_gone(result.gone)
    yield from _render_failed(result.failed)
    if result.change:
        undo = f"offsite groups undo --backup {result.backup} --change {result.change}{records_flag(records)}"
        yield f"to go back: {undo}"


def _render_undone(result: UndoneGroups) -> Iterator[Line]:
    yield (
        f"{amount(result.groups, 'group is', 'groups are')} back to the state before change {result.change}: "
        f"{amount(result.offsets_put_back, 'offset')} set back, {result.offsets_removed:,} removed"
    )
    for kept in result.untold[:ROWS_SHOWN]:
        yield (
            f"  NOT REMOVED: {kept.group} on {kept.topic}: before the change, brokers told no position in some "
            "partitions, as they do where they cannot read one: the new positions stay. To remove all of them, after "
            "which the group begins where share.auto.offset.reset says: kafka-share-groups.sh --delete-offsets "
            f"--group {shlex.quote(kept.group)} --topic {kept.topic}"
        )
    yield from _render_failed(result.failed)


def _render_refused(refused: Sequence[RefusedOffset]) -> Iterator[Line]:
    """Show why groups are not set."""
    yield from first_lines(
        refused,
        lambda offset: (
            f"  NOT SET: {offset.group}: at {offset.offset:,} of {offset.topic}/{offset.partition}: {offset.why}"
        ),
        most=ROWS_SHOWN,
        more="  and {:,} more (-o json has all)",
    )


def _render_untold(untold: Sequence[GroupOnTopic]) -> Iterator[Line]:
    """Show which positions an undo cannot put back."""
    yield from first_lines(
        untold,
        lambda where: (
            f"  UNKNOWN BEFORE: {where.group} on {where.topic}: brokers tell no position in some partitions, as they "
            "do where they cannot read one: an undo will leave the new positions"
        ),
        most=_NAMED_MAX,
        more="  and {:,} more (-o json has all)",
    )


def _render_failed(failed: Sequence[GroupFailure]) -> Iterator[Line]:
    from offsite.kafka.groups import OTHER_POSITION

    for failure in failed:
        is_unknown = failure.partitions or failure.error == OTHER_POSITION
        outcome = "may not be as planned" if is_unknown else "was not changed"
        yield f"  group {failure.group} {outcome}: {failure.message}"


def _render_rest(rows: int) -> Iterator[Line]:
    if rows > ROWS_SHOWN:
        yield f"… {amount(rows - ROWS_SHOWN, 'more row')}: -o json has all of them"


def _offset(offset: int) -> str:
    return "-" if offset < 0 else f"{offset:,}"
