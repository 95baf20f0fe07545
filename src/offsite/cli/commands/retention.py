"""`offsite retention`: how long restore points are kept, and the deletion of unneeded data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import BackupName, Bootstrap, KafkaConfigFile, Output, Repo, Yes, takes
from offsite.cli.output import Line, OutputFormat, Table, confirm, emit, emit_each, emit_notice, remark_lines
from offsite.cli.wiring import connect, open_backup, open_repository
from offsite.model.names import amount
from offsite.model.units import format_size, format_time
from offsite.upkeep.retention.policy import PolicyWords, parse_policy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsite.model.cleanup_policy import Retention
    from offsite.repository.backup import Backup
    from offsite.upkeep.retention.kept_points import KeptPoints
    from offsite.upkeep.retention.pins import PinnedPoint
    from offsite.upkeep.retention.report import AuditReport, CommitSpan, RetentionReport


_LISTED_MAX = 20


def render_plan(report: RetentionReport) -> Iterator[Line]:
    yield from _render_kept(report)
    if report.removed_points:
        yield (
            f"  {amount(report.removed_points, 'restore point')} would be deleted, {report.rule}: "
            f"{_spans(report.removed_commits)}"
        )
    if report.removed_segments:
        yield (
            f"  {amount(report.removed_segments, 'segment')} ({format_size(report.removed_bytes)}) that no restore "
            "point would need then would be deleted"
        )
    if not report.removed_points and not report.removed_segments:
        yield "  nothing would be deleted"
    yield from _render_next(report)
    for why in filter(None, (report.below_floor, report.clock_step)):
        yield f"  REFUSED without --force: {why}"
    yield from remark_lines(report.notes)


def render_done(report: RetentionReport) -> Iterator[Line]:
    yield from _render_kept(report)
    if report.commit is None:
        yield "  nothing was to be deleted"
    else:
        yield (
            f"  commit {report.commit} removes {amount(report.removed_points, 'restore point')} and "
            f"{amount(report.removed_segments, 'segment')} ({format_size(report.removed_bytes)}); the next collection "
            "after the grace time deletes their objects"
        )
    yield from _render_next(report)
    yield from remark_lines(report.notes)


def render_pins(pins: Sequence[PinnedPoint]) -> Iterator[Line]:
    if not pins:
        yield "no restore point is pinned"
    for pin in pins:
        until = f"until {format_time(pin.until_ms)}" if pin.until_ms else "for ever"
        over = "" if pin.holds else " (over: the next retention removes the pin)"
        yield f"commit {pin.commit} of {format_time(pin.committed_at_ms)}, {until}{over}: {pin.reason}"


def audit_line(line: AuditReport) -> str:
    """Format a deletion as a line."""
    if line.problem:
        return f"{line.what} cannot be read: {line.problem}"
    size = f" ({format_size(line.bytes)})" if line.bytes else ""
    return f"{format_time(line.at_ms)} {line.by}, {line.state}: {line.what}{size}, {line.rule}; by {line.who}"


def _render_kept(report: RetentionReport) -> Iterator[Line]:
    table = Table("restore points", "commits", "kept by")
    for kept_points in report.kept[-_LISTED_MAX:]:
        table.add_row(
            f"{kept_points.points:,}",
            f"{kept_points.first} to {kept_points.last}" if kept_points.points > 1 else str(kept_points.first),
            kept_points.rule,
        )
    yield table
    hidden = len(report.kept) - _LISTED_MAX
    if hidden > 0:
        yield f"  and {amount(hidden, 'older run')}; -o json lists them"
    yield (
        f"backup {report.backup} keeps {amount(report.kept_points, 'restore point')}, {format_size(report.kept_bytes)}"
    )


def _render_next(report: RetentionReport) -> Iterator[Line]:
    if report.next_commit and report.next_ms:
        yield f"  next: commit {report.next_commit}, not before {format_time(report.next_ms)}"
    elif report.next_commit:
        yield f"  next: commit {report.next_commit}, when newer restore points take its place"


def _spans(spans: Sequence[CommitSpan]) -> str:
    listed = ", ".join(map(_span, spans[:_LISTED_MAX]))
    return listed if len(spans) <= _LISTED_MAX else f"{listed} and {amount(len(spans) - _LISTED_MAX, 'more run')}"


def _span(span: CommitSpan | KeptPoints) -> str:
    return f"{span.first} to {span.last}" if span.first < span.last else str(span.first)


app = typer.Typer(help="Delete restore points by rules, and show what was deleted.", no_args_is_help=True)

CommitNumber = Annotated[int, typer.Option("--commit", help="Number of the restore point.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOptions:
    """Options of plan and apply, as typed: a backup and its policy."""

    repo: Repo
    backup: BackupName
    words: PolicyWords = field(default_factory=PolicyWords)
    bootstrap: Bootstrap = None
    kafka_config: KafkaConfigFile = None


@app.command()
@takes(RetentionOptions)
def plan(options: RetentionOptions, output: Output = OutputFormat.TABLE) -> None:
    """Show what is kept and why, what would be deleted, and how many bytes. Changes nothing.

    Without a rule the backup mirrors its topics: data that their own retention deleted at the source is deleted in the
    backup. If a topic's retention is a broker default, give --bootstrap to read the default.
    """
    from offsite.model.clock import SystemClock
    from offsite.upkeep.retention.apply import plan_retention
    from offsite.upkeep.retention.report import retention_report

    policy, opened = parse_policy(**options.words), open_backup(options.repo, options.backup, looks=True)
    planned = plan_retention(opened, policy, clock=SystemClock(), cluster_retention=_cluster_settings(options, opened))
    emit(retention_report(planned), output=output, render=render_plan)


@app.command()
@takes(RetentionOptions)
def apply(
    options: RetentionOptions,
    force: Annotated[
        bool, typer.Option("--force", help="Apply although the result is below --floor, or a clock may have jumped.")
    ] = False,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Delete what the policy does not keep, in one commit, and search results older than a week.

    Objects are deleted by the next collection, after a day at the earliest (offsite collect run, or a following run).
    Ages count from the newest complete restore point. Exit code 14: the result would be below --floor, clocks differ,
    or a clock may have jumped; nothing was done.
    """
    from offsite.jobs.end import forget_searches
    from offsite.model.clock import SystemClock
    from offsite.upkeep.retention.apply import apply_retention, check_force, plan_retention
    from offsite.upkeep.retention.report import retention_report

    policy, opened, clock = parse_policy(**options.words), open_backup(options.repo, options.backup), SystemClock()
    cluster_settings = _cluster_settings(options, opened)
    planned = plan_retention(opened, policy, clock=clock, cluster_retention=cluster_settings)
    check_force(planned, force=force)
    if not planned.is_empty and not yes:
        emit_notice(retention_report(planned), render=render_plan)
        confirm(
            f"delete {amount(planned.points, 'restore point')} of backup {options.backup}, and the data that no other "
            "restore point needs?"
        )
    result = apply_retention(opened, planned, clock=clock, force=force, cluster_retention=cluster_settings)
    forget_searches(opened.store)
    emit(retention_report(result.plan, commit=result.commit), output=output, render=render_done)


@app.command()
def pin(
    repo: Repo,
    backup: BackupName,
    commit: CommitNumber,
    reason: Annotated[str, typer.Option("--reason", help="Why the restore point is kept, for readers in a year.")],
    until: Annotated[
        str | None, typer.Option("--until", help="End of the pin, as 2027-03-31 or 90d [default: for ever].")
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Pin a restore point: the rules do not delete it."""
    from offsite.upkeep.retention.pins import parse_until, pin_point, pinned_points

    opened = open_backup(repo, backup)
    until_ms = parse_until(until, now_ms=opened.store.now_ms())
    pin_point(opened, commit, reason=reason, until_ms=until_ms)
    emit(pinned_points(opened), output=output, render=render_pins)


@app.command()
def unpin(repo: Repo, backup: BackupName, commit: CommitNumber, output: Output = OutputFormat.TABLE) -> None:
    """Remove the pin of a restore point: the next retention decides about it."""
    from offsite.upkeep.retention.pins import pinned_points, unpin_point

    opened = open_backup(repo, backup)
    unpin_point(opened, commit)
    emit(pinned_points(opened), output=output, render=render_pins)


@app.command()
def pins(repo: Repo, backup: BackupName, output: Output = OutputFormat.TABLE) -> None:
    """Show the restore points that are pinned, why, and until when."""
    from offsite.upkeep.retention.pins import pinned_points

    emit(pinned_points(open_repository(repo, looks=True).backup(backup)), output=output, render=render_pins)


@app.command()
def log(
    repo: Repo,
    backup: BackupName,
    after: Annotated[int, typer.Option("--after", help="Only lines after that commit.")] = -1,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show what was deleted of a backup: when, by whom, by which rule, and how many bytes.

    A line is written before the deletion. The state is `done` when a commit records the deletion, or an object is gone,
    else `to be done`.
    """
    from offsite.upkeep.retention.report import audit_reports

    lines = audit_reports(open_repository(repo, looks=True).backup(backup), after=after)
    emit_each(lines, name="deletions", output=output, line=audit_line)


def _cluster_settings(options: RetentionOptions, opened: Backup) -> Mapping[str, Retention]:
    """Return the cluster's settings of topics, if a cluster is named."""
    from offsite.upkeep.retention.mirror import read_cluster_retention

    if options.bootstrap is None and options.kafka_config is None:
        return {}
    cluster = connect(options.bootstrap, options.kafka_config)
    return read_cluster_retention(cluster.admin, opened, opened.state())
