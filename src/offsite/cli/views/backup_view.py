"""The result of a run of a backup, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsite.cli.views.settings_view import render_not_carried
from offsite.model.head import Head
from offsite.model.names import named
from offsite.model.units import format_size, format_time

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.backup.run import BackupResult
    from offsite.groups.snapshots import SavedGroups


_NAMED_MAX = 5
"""Topics named in a line."""


def render_result(console: Console, result: BackupResult) -> None:
    console.print(
        f"backup {result.backup}: commit {result.commit} at {format_time(result.committed_at_ms)}",
        f"  {result.records:,} records, {format_size(result.bytes)} from {result.partitions} partitions of "
        f"{result.topics} topics, stored as {format_size(result.stored_bytes)} in {result.segments} segments",
        sep="\n",
    )
    if result.groups is not None:
        _render_groups(console, result.groups)
    _render_troubles(console, result)
    render_not_carried(console, result.not_carried)
    console.print(f"  head {Head(commit=result.commit, hash=result.head_hash).short}")
    console.print(f"next: offsite show {result.backup} | offsite verify --backup {result.backup} --deep")


def render_commit(console: Console, result: BackupResult) -> None:
    """Show the result as a line, for successive runs."""
    console.print(
        f"commit {result.commit} at {format_time(result.committed_at_ms)}: {result.records:,} records, "
        f"{format_size(result.bytes)} in {result.segments} segments of {result.partitions} partitions"
    )
    _render_troubles(console, result)


def _render_troubles(console: Console, result: BackupResult) -> None:
    """Show the problems: holes, logs that were cut back, failed partitions."""
    for hole in result.holes:
        console.print(f"  hole: {hole.topic}/{hole.partition} [{hole.start}, {hole.end}) {hole.reason}")
    if result.expected_deletions:
        deleted = sum(hole.end - hole.start for hole in result.expected_deletions)
        topics = sorted({hole.topic for hole in result.expected_deletions})
        console.print(
            f"  expected deletions, no loss: {deleted:,} offsets of {named(topics, most=_NAMED_MAX)} had been read by "
            "all groups, or were declared"
        )
    for branch in result.cut_back:
        console.print(f"  ALARM: {branch}")
        if branch.last_commit:
            console.print(
                f"    hint: offsite restore run --backup {result.backup} --commit {branch.last_commit} --topics "
                f"{branch.topic} restores the {branch.records:,} records that the source has lost"
            )
    if result.no_cut:
        console.print(f"  no consistent cut: a restore of this commit takes each partition as copied: {result.no_cut}")
    for topic in result.unread_topics:
        console.print(f"  no permission to read the settings of {topic}: the settings of an earlier run are kept")
        console.print("    hint: grant the principal DESCRIBE_CONFIGS on the topic")
    for failure in result.failed:
        since = f" from {failure.start}" if failure.start >= 0 else ""
        console.print(f"  failed: {failure.topic}/{failure.partition}{since}: [{failure.error}] {failure.message}")
        if failure.hint:
            console.print(f"    hint: {failure.hint}")


def _render_groups(console: Console, saved: SavedGroups) -> None:
    if saved.groups:
        since = "" if saved.changed else ", as before"
        console.print(f"  {saved.groups:,} groups with {saved.offsets:,} committed offsets{since}")
    if saved.note:
        console.print(f"  note: {saved.note}")
    for failure in saved.failed:
        console.print(f"  group {failure.group} was not read: {failure.message}")
