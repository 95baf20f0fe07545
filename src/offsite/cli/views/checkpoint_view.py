"""Checkpoints for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsite.model.units import format_duration, format_time

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.checkpoint.explain import Explanation
    from offsite.checkpoint.status import CheckpointList, CheckpointReport
    from offsite.repository.snapshots.commit_cut import CheckpointParticipant

_LINES_MAX = 20
"""Partitions, and left-out transactions, shown: the first ones. -o json has all."""


def render_list(console: Console, listing: CheckpointList) -> None:
    from rich.table import Table

    if not listing.total:
        console.print(f"backup {listing.backup} has no checkpoint; take one with: offsite checkpoint take")
        return
    table = Table("checkpoint", "status", "taken", "partitions", "commit", "why")
    for checkpoint in listing.checkpoints:
        table.add_row(
            str(checkpoint.id),
            checkpoint.status.value,
            format_time(checkpoint.taken_at_ms) if checkpoint.taken_at_ms >= 0 else "-",
            f"{checkpoint.partitions_completed}/{checkpoint.partitions}",
            str(checkpoint.commit) if checkpoint.commit else "-",
            checkpoint.failure_reason or (f"deleted by {checkpoint.deleted_by}" if checkpoint.deleted_by else ""),
        )
    console.print(table)
    if listing.total > len(listing.checkpoints):
        console.print(f"the newest {len(listing.checkpoints)} of {listing.total}; more with --limit")


def render_checkpoint(console: Console, report: CheckpointReport) -> None:
    console.print(f"checkpoint {report.id} of backup {report.backup}: {report.status.value}")
    if report.taken_at_ms >= 0:
        console.print(
            f"  taken {format_time(report.taken_at_ms)}, {format_duration(report.age_s)} ago; "
            f"{report.partitions_completed} of {report.partitions} partitions have reached its end"
        )
    if report.failure_reason:
        console.print(f"  why: {report.failure_reason}")
    if report.deleted_by:
        console.print(f"  deleted by {report.deleted_by}")
    if report.commit and report.deleted_by:
        console.print(f"  commit {report.commit} stays a restore point until retention deletes it")
    elif report.commit:
        console.print(f"  commit {report.commit}: restore it with: offsite restore plan --checkpoint {report.id}")
    _render_participants(console, report.participants)
    behind = [partition for partition in report.details if partition.reached < partition.end or partition.end < 0]
    for partition in behind[:_LINES_MAX]:
        at = f"offset {partition.reached:,} of {partition.end:,}" if partition.end >= 0 else "end offset not known"
        console.print(f"  {partition.topic}/{partition.partition}: {partition.status.value}, {at}")
    if len(behind) > _LINES_MAX:
        console.print(f"  and {len(behind) - _LINES_MAX} more partitions")


def render_explanation(console: Console, explanation: Explanation) -> None:
    console.print(f"checkpoint {explanation.id} of backup {explanation.backup}, commit {explanation.commit}")
    for topic, kind in explanation.classes:
        console.print(f"  {topic}: {kind}")
    if not explanation.has_cut:
        console.print("  no consistent cut: a restore takes each partition as copied")
    if explanation.refused:
        console.print(f"  its cut must not be used: {explanation.refused}")
    for partition in explanation.partitions[:_LINES_MAX]:
        end_text = (
            f"ends at {partition.end:,} instead of {partition.copied:,}"
            if partition.end < partition.copied
            else f"ends at {partition.end:,}"
        )
        console.print(
            f"  {partition.topic}/{partition.partition} {end_text}, without {partition.transactions} transactions"
        )
    for transaction in explanation.left_out[:_LINES_MAX]:
        console.print(f"  left out: {transaction.name} in {', '.join(transaction.partitions[:5])}: {transaction.why}")
    if explanation.left_out_count > min(_LINES_MAX, len(explanation.left_out)):
        console.print(f"  {explanation.left_out_count} are left out in total")
    if explanation.groups:
        console.print(f"  {explanation.groups} group offsets are set to match the cut")
    _render_participants(console, explanation.participants)
    for note in explanation.notes:
        console.print(f"  note: {note}")
    if explanation.has_cut and not (explanation.partitions or explanation.left_out_count or explanation.groups):
        console.print("  nothing is left out")


def _render_participants(console: Console, participants: Sequence[CheckpointParticipant]) -> None:
    for participant in participants:
        console.print(f"  with participant {participant.described}")
