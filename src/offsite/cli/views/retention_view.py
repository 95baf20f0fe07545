"""Shows kept and removed parts of a backup, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsite.model.units import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from offsite.upkeep.retention.kept_points import KeptPoints
    from offsite.upkeep.retention.pins import PinnedPoint
    from offsite.upkeep.retention.report import AuditReport, CommitSpan, RetentionReport

_LISTED_MAX = 20


def render_plan(console: Console, report: RetentionReport) -> None:
    _render_kept(console, report)
    if report.removed_points:
        console.print(
            f"  {_points(report.removed_points)} would be deleted, {report.rule}: {_spans(report.removed_commits)}"
        )
    if report.removed_segments:
        console.print(
            f"  {report.removed_segments} segments ({format_size(report.removed_bytes)}) that no restore point would "
            "need then would be deleted"
        )
    if not report.removed_points and not report.removed_segments:
        console.print("  nothing would be deleted")
    _render_next(console, report)
    for why in filter(None, (report.below_floor, report.clock_step)):
        console.print(f"  REFUSED without --force: {why}")
    for note in report.notes:
        console.print(f"  note: {note}")


def render_done(console: Console, report: RetentionReport) -> None:
    _render_kept(console, report)
    if report.commit is None:
        console.print("  nothing was to be deleted")
    else:
        console.print(
            f"  commit {report.commit} removes {_points(report.removed_points)} and {report.removed_segments} segments "
            f"({format_size(report.removed_bytes)}); the next collection after the grace time deletes their objects"
        )
    _render_next(console, report)
    for note in report.notes:
        console.print(f"  note: {note}")


def render_pins(console: Console, pins: Sequence[PinnedPoint]) -> None:
    if not pins:
        console.print("no restore point is pinned")
    for pin in pins:
        until = f"until {format_time(pin.until_ms)}" if pin.until_ms else "for ever"
        over = "" if pin.holds else " (over: the next retention removes the pin)"
        console.print(f"commit {pin.commit} of {format_time(pin.committed_at_ms)}, {until}{over}: {pin.reason}")


def audit_line(line: AuditReport) -> str:
    """Format a deletion as a line."""
    if line.problem:
        return f"{line.what} cannot be read: {line.problem}"
    size = f" ({format_size(line.bytes)})" if line.bytes else ""
    return f"{format_time(line.at_ms)} {line.by}, {line.state}: {line.what}{size}, {line.rule}; by {line.who}"


def _render_kept(console: Console, report: RetentionReport) -> None:
    from rich.table import Table

    table = Table("restore points", "commits", "kept by")
    for kept_points in report.kept[-_LISTED_MAX:]:
        table.add_row(
            f"{kept_points.points:,}",
            f"{kept_points.first} to {kept_points.last}" if kept_points.points > 1 else str(kept_points.first),
            kept_points.rule,
        )
    console.print(table)
    hidden = len(report.kept) - _LISTED_MAX
    if hidden > 0:
        console.print(f"  and {hidden} older runs; -o json lists them")
    console.print(f"backup {report.backup} keeps {_points(report.kept_points)}, {format_size(report.kept_bytes)}")


def _render_next(console: Console, report: RetentionReport) -> None:
    if report.next_commit and report.next_ms:
        console.print(f"  next: commit {report.next_commit}, not before {format_time(report.next_ms)}")
    elif report.next_commit:
        console.print(f"  next: commit {report.next_commit}, when newer restore points take its place")


def _points(number: int) -> str:
    return f"{number:,} restore point{'' if number == 1 else 's'}"


def _spans(spans: Sequence[CommitSpan]) -> str:
    listed = ", ".join(map(_span, spans[:_LISTED_MAX]))
    return listed if len(spans) <= _LISTED_MAX else f"{listed} and {len(spans) - _LISTED_MAX} more runs"


def _span(span: CommitSpan | KeptPoints) -> str:
    return f"{span.first} to {span.last}" if span.first < span.last else str(span.first)
