"""Checkpoints for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsite.model.time import format_duration, format_time

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.repository.snapshots.participant import CheckpointParticipant
    from offsite.services.checkpoint.explain import Explanation
    from offsite.services.checkpoint.status import CheckpointList, CheckpointReport

_LINES_MAX = 20
"""Partitions, and transactions that are left out, that are shown: the first ones. -o json has all."""


def render_list(console: Console, found: CheckpointList) -> None:
    from rich.table import Table

    if not found.total:
        console.print(f"backup {found.backup} has no checkpoint; take one with: offsite checkpoint take")
        return
    table = Table("checkpoint", "status", "taken", "partitions", "commit", "why")
    for each in found.checkpoints:
        table.add_row(
            str(each.id),
            each.status.value,
            format_time(each.taken_at_ms) if each.taken_at_ms >= 0 else "-",
            f"{each.partitions_completed}/{each.partitions}",
            str(each.commit) if each.commit else "-",
            each.failure_reason or (f"deleted by {each.deleted_by}" if each.deleted_by else ""),
        )
    console.print(table)
    if found.total > len(found.checkpoints):
        console.print(f"the newest {len(found.checkpoints)} of {found.total}; more with --limit")


def render_checkpoint(console: Console, report: CheckpointReport) -> None:
    console.print(f"checkpoint {report.id} of backup {report.backup}: {report.status.value}")
    if report.taken_at_ms >= 0:
        console.print(
            f"  taken {format_time(report.taken_at_ms)}, {format_duration(report.age_s)} ago; "
            f"{report.partitions_completed} of {report.partitions} partitions are at its end"
        )
    if report.failure_reason:
        console.print(f"  why: {report.failure_reason}")
    if report.deleted_by:
        console.print(f"  deleted by {report.deleted_by}")
    if report.commit and report.deleted_by:
        console.print(f"  commit {report.commit} stays as a plain restore point, until retention lets it go")
    elif report.commit:
        console.print(f"  commit {report.commit}: restore it with: offsite restore plan --checkpoint {report.id}")
    _render_participants(console, report.participants)
    behind = [each for each in report.details if each.reached < each.end or each.end < 0]
    for each in behind[:_LINES_MAX]:
        at = f"offset {each.reached:,} of {each.end:,}" if each.end >= 0 else "could not be asked"
        console.print(f"  {each.topic}/{each.partition}: {each.status.value}, {at}")
    if len(behind) > _LINES_MAX:
        console.print(f"  and {len(behind) - _LINES_MAX} more partitions")


def render_explanation(console: Console, found: Explanation) -> None:
    console.print(f"checkpoint {found.id} of backup {found.backup}, commit {found.commit}")
    for topic, kind in found.classes:
        console.print(f"  {topic}: {kind}")
    if not found.has_cut:
        console.print("  it has no consistent cut: a restore takes all as it was copied")
    if found.refused:
        console.print(f"  its cut must not be used: {found.refused}")
    for each in found.partitions[:_LINES_MAX]:
        ended = (
            f"ends at {each.end:,} instead of {each.copied:,}" if each.end < each.copied else f"ends at {each.end:,}"
        )
        console.print(f"  {each.topic}/{each.partition} {ended}, without {each.transactions} transactions")
    for left in found.left_out[:_LINES_MAX]:
        console.print(f"  left out: {left.name} in {', '.join(left.partitions[:5])}: {left.why}")
    if found.left_out_count > min(_LINES_MAX, len(found.left_out)):
        console.print(f"  {found.left_out_count} are left out in all")
    if found.groups:
        console.print(f"  {found.groups} offsets of groups are set to what belongs to the cut")
    _render_participants(console, found.participants)
    for note in found.notes:
        console.print(f"  note: {note}")
    if found.has_cut and not (found.partitions or found.left_out_count or found.groups):
        console.print("  nothing is left out")


def _render_participants(console: Console, participants: Sequence[CheckpointParticipant]) -> None:
    for each in participants:
        console.print(f"  with participant {each.described}")
