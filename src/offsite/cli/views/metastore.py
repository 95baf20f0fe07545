"""Backups of a metastore, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsite.model.units import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from offsite.metastore.comparison import MetastoreVerifyReport
    from offsite.metastore.restore import MetastoreRestoreResult
    from offsite.metastore.restore_plan import MetastoreRestorePlan
    from offsite.metastore.status import MetastoreStatusReport, MetastoreView


_SHOWN = 20
"""Lines shown about single commands; the JSON output has all."""


def render_backup(console: Console, view: MetastoreView) -> None:
    for repair in view.repairs:
        console.print(f"repaired: {repair}")
    if view.diverged:
        console.print(f"ANOTHER HISTORY: {view.diverged}; a new file was begun, the old file is kept")
    if view.verdict.is_alarm:
        console.print(
            f"ALARM: the topic {view.topic} is {view.verdict.value}: {view.missing:,} commands are only in "
            f"{view.older or 'the file'}"
        )
    if view.undecided:
        console.print(f"a transaction is open: the {view.undecided:,} offsets from it on are not backed up yet")
    new = f", {view.appended:,} of them new" if view.appended else ""
    where = f" in {view.file} ({format_size(view.size_bytes)})" if view.file else ""
    console.print(f"{view.topic}: {view.verdict.value}, {view.commands:,} commands{new}{where}")


def render_status(console: Console, report: MetastoreStatusReport) -> None:
    if not report.backups:
        console.print(f"no backup of a metastore in {report.location}")
        return
    from rich.table import Table

    table = Table("service or topic", "verdict", "commands", "size", "newest command", "last written", "older files")
    for backup in report.backups:
        table.add_row(
            backup.service or backup.topic,
            "safe" if backup.safe else "NOT SAFE",
            f"{backup.commands:,}",
            format_size(backup.size_bytes),
            format_time(backup.last_command_ms) if backup.last_command_ms >= 0 else "-",
            format_time(backup.written_ms) if backup.written_ms >= 0 else "-",
            str(backup.older),
        )
    console.print(table)
    for backup in report.backups:
        _lines(console, f"{backup.file.name}: ", backup.problems)
        _lines(console, "warning: ", backup.warnings)
        if backup.unchecked:
            console.print(
                f"{backup.file.name}: {backup.unchecked:,} commands are in no sidecar: their bytes are unchecked"
            )


def render_verification(console: Console, report: MetastoreVerifyReport) -> None:
    _lines(
        console,
        "DAMAGED: ",
        [f"line {problem.line}: {problem.what}" if problem.line else problem.what for problem in report.problems],
    )
    if report.difference:
        console.print(f"DIFFERENT: {report.difference}")
    if report.missing:
        console.print(f"DIFFERENT: {report.against} ends before the file: {report.missing:,} commands are missing")
    if report.more:
        console.print(f"DIFFERENT: {report.against} has {report.more:,} commands that are not in the file")
    checked = "every byte is as written" if report.described else "each line has a key and a value (no sidecar)"
    if report.unchecked:
        checked += f", except {report.unchecked:,} at the end that are not in the sidecar"
    same = f"; {report.against} has the same commands" if report.against else ""
    if report.ok:
        console.print(f"{report.file}: {report.commands:,} commands; {checked}{same}")


def render_restore_plan(console: Console, plan: MetastoreRestorePlan) -> None:
    existing_commands = len(plan.existing.records) if plan.existing else 0
    console.print(f"{plan.topic}: {plan.commands:,} commands from {plan.file}")
    if plan.is_there_already:
        lacking = ", ".join(f"{name}={value}" for name, value in sorted(plan.lacking.items()))
        console.print(
            f"  the topic has exactly these commands already: {f'sets {lacking}' if lacking else 'nothing to do'}"
        )
        return
    if plan.existing is not None:
        console.print(
            f"  its present content ({existing_commands:,} commands) is copied beside the file, then the topic is "
            "deleted"
        )
    settings = ", ".join(f"{name}={value}" for name, value in sorted(plan.configs.items()))
    console.print(f"  the topic is created with one partition and {settings}")
    placed = plan.placement
    console.print(
        f"  each command gets its old offset ({placed.filled:,} empty offsets are filled)"
        if placed.same_offsets
        else f"  commands get new offsets: {placed.why}"
    )
    if plan.torn_bytes:
        console.print(
            f"  left out: {plan.torn_bytes} bytes of an incomplete last line, cut by a crash before it was backed up"
        )
    _lines(console, "  left out: ", [f"command {number}: {why}" for number, why in plan.skipped])
    _lines(
        console,
        "  ksqlDB would not read: ",
        [f"command {number}: {why} (--skip-incompatible leaves it out)" for number, why in plan.incompatible],
    )
    console.print("  Stop all ksqlDB servers of this service first, and start them afterwards.")


def render_restored(console: Console, result: MetastoreRestoreResult) -> None:
    if result.copy is not None:
        console.print(f"the previous content is kept in {result.copy}")
    left_out = f", {result.skipped:,} left out" if result.skipped else ""
    offsets = ", each at its old offset" if result.same_offsets else ""
    console.print(f"{result.topic}: {result.commands:,} commands{left_out}{offsets}; read back and compared")
    console.print("next: start the ksqlDB servers; they read the topic when they start")


def _lines(console: Console, begin: str, texts: Sequence[str]) -> None:
    for text in texts[:_SHOWN]:
        console.print(f"{begin}{text}")
    if len(texts) > _SHOWN:
        console.print(f"{begin}and {len(texts) - _SHOWN:,} more (all of them with -o json)")
