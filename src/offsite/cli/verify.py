"""`offsite verify`: whether a backup is what it says it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import BackupName, Output, Repo, SparkMaster
from offsite.cli.output import OutputFormat, emit
from offsite.cli.wiring import open_repository, spark
from offsite.model.errors import Damaged
from offsite.model.size import format_size

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.repository.backup import Backup
    from offsite.services.verify import VerifyResult


def verify(
    repo: Repo,
    backup: BackupName,
    deep: Annotated[bool, typer.Option("--deep", help="Read every byte again and compare hashes and CRCs.")] = False,
    spark_master: SparkMaster = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Check a backup. Exit code 13 when something is damaged; the rest stays restorable."""
    from offsite.services.verify import verify_quick

    opened = open_repository(repo).backup(backup)
    result = _deep(opened, spark_master) if deep else verify_quick(opened)
    emit(result, output=output, render=_render)
    if not result.ok:
        raise typer.Exit(Damaged.exit_code)


def _deep(opened: Backup, spark_master: str | None) -> VerifyResult:
    from offsite.cli.progress import progress
    from offsite.services.verify import verify_deep

    total_bytes = sum(segment.raw_bytes for segment in opened.state().all_segments())
    with (
        spark(spark_master, preload="offsite.pipeline.verify_copy") as runner,
        progress("verify", total_bytes=total_bytes) as on_progress,
    ):
        return verify_deep(opened, runner, on_progress=on_progress)


def _render(console: Console, result: VerifyResult) -> None:
    verdict = "ok" if result.ok else f"{len(result.damaged)} of {result.segments} segments are DAMAGED"
    console.print(
        f"backup {result.backup}, {result.depth} check: {verdict} "
        f"({result.commits} restore points, {result.segments} segments, {result.records:,} records, "
        f"{format_size(result.bytes)})"
    )
    for damage in result.damaged:
        console.print(
            f"  {damage.topic}/{damage.partition} [{damage.start}, {damage.end}): {damage.problem}\n"
            f"    needed by restore points {damage.first_commit} to {damage.last_commit}; object {damage.key}",
            markup=False,
        )
    if result.ok and result.depth == "quick":
        console.print(f"next: offsite verify --backup {result.backup} --deep reads every byte")
