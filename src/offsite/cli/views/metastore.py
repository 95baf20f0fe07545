"""Backups of a metastore, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsite.cli.output import Line, Table, first_lines
from offsite.model.units import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsite.metastore.comparison import MetastoreVerifyReport
    from offsite.metastore.restore import MetastoreRestoreResult
    from offsite.metastore.restore_plan import MetastoreRestorePlan
    from offsite.metastore.status import MetastoreStatusReport, MetastoreView


_SHOWN = 20
"""Lines shown about single commands; the JSON output has all."""


def render_backup(view: MetastoreView) -> Iterator[Line]:
    for repair in view.repairs:
        yield f"repaired: {repair}"
    if view.diverged:
        yield f"ANOTHER HISTORY: {view.diverged}; a new file was begun, the old file is kept"
    if view.verdict.is_alarm:
        yield (
            f"ALARM: the topic {view.topic} is {view.verdict.value}: {view.missing:,} commands are only in "
            f"{view.older or 'the file'}"
        )
    if view.undecided:
        yield f"a transaction is open: the {view.undecided:,} offsets from it on are not backed up yet"
    new = f", {view.appended:,} of them new" if view.appended else ""
    where = f" in {view.file} ({format_size(view.size_bytes)})" if view.file else ""
    yield f"{view.topic}: {view.verdict.value}, {view.commands:,} commands{new}{where}"


def render_status(report: MetastoreStatusReport) -> Iterator[Line]:
    if not report.backups:
        yield f"no backup of a metastore in {report.location}"
        return
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
    yield table
    for backup in report.backups:
        yield from _lines(f"{backup.file.name}: ", backup.problems)
        yield from _lines("warning: ", backup.warnings)
        if backup.unchecked:
            yield f"{backup.file.name}: {backup.unchecked:,} commands are in no sidecar: their bytes are unchecked"


def render_verification(report: MetastoreVerifyReport) -> Iterator[Line]:
    yield from _lines(
        "DAMAGED: ",
        [f"line {problem.line}: {problem.what}" if problem.line else problem.what for problem in report.problems],
    )
    if report.difference:
        yield f"DIFFERENT: {report.difference}"
    if report.missing:
        yield f"DIFFERENT: {report.against} ends before the file: {report.missing:,} commands are missing"
    if report.more:
        yield f"DIFFERENT: {report.against} has {report.more:,} commands that are not in the file"
    checked = "every byte is as written" if report.described else "each line has a key and a value (no sidecar)"
    if report.unchecked:
        checked += f", except {report.unchecked:,} at the end that are not in the sidecar"
    same = f"; {report.against} has the same commands" if report.against else ""
    if report.ok:
        yield f"{report.file}: {report.commands:,} commands; {checked}{same}"


def render_restore_plan(plan: MetastoreRestorePlan) -> Iterator[Line]:
    existing_commands = len(plan.existing.records) if plan.existing else 0
    yield f"{plan.topic}: {plan.commands:,} commands from {plan.file}"
    if plan.is_there_already:
        lacking = ", ".join(f"{name}={value}" for name, value in sorted(plan.lacking.items()))
        yield f"  the topic has exactly these commands already: {f'sets {lacking}' if lacking else 'nothing to do'}"
        return
    if plan.existing is not None:
        yield (
            f"  its present content ({existing_commands:,} commands) is copied beside the file, then the topic is "
            "deleted"
        )
    settings = ", ".join(f"{name}={value}" for name, value in sorted(plan.configs.items()))
    yield f"  the topic is created with one partition and {settings}"
    placed = plan.placement
    yield (
        f"  each command gets its old offset ({placed.filled:,} empty offsets are filled)"
        if placed.same_offsets
        else f"  commands get new offsets: {placed.why}"
    )
    if plan.torn_bytes:
        yield f"  left out: {plan.torn_bytes} bytes of an incomplete last line, cut by a crash before it was backed up"
    yield from _lines("  left out: ", [f"command {number}: {why}" for number, why in plan.skipped])
    yield from _lines(
        "  ksqlDB would not read: ",
        [f"command {number}: {why} (--skip-incompatible leaves it out)" for number, why in plan.incompatible],
    )
    yield "  Stop all ksqlDB servers of this service first, and start them afterwards."


def render_restored(result: MetastoreRestoreResult) -> Iterator[Line]:
    if result.copy is not None:
        yield f"the previous content is kept in {result.copy}"
    left_out = f", {result.skipped:,} left out" if result.skipped else ""
    offsets = ", each at its old offset" if result.same_offsets else ""
    yield f"{result.topic}: {result.commands:,} commands{left_out}{offsets}; read back and compared"
    yield "next: start the ksqlDB servers; they read the topic when they start"


def _lines(begin: str, texts: Sequence[str]) -> Iterator[Line]:
    more = "and {:,} more (all of them with -o json)"
    return (f"{begin}{text}" for text in first_lines(texts, str, most=_SHOWN, more=more))
