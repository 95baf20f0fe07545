"""The status of a repository, for people: one screen that says whether every backup is safe, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsite.model.head import Head
from offsite.model.time import format_duration, format_time

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.services.overview.last_checks import LastChecks
    from offsite.services.overview.status import BackupStatus, Status


def render_status(console: Console, report: Status) -> None:
    console.print(f"{'SAFE' if report.safe else 'ATTENTION'}  {report.repository}")
    if not report.backups:
        console.print("  no backup yet", "next: offsite backup run --backup NAME --topics '*'", sep="\n")
    for backup in report.backups:
        console.print(_status_line(backup))
        if backup.head_commit:
            console.print(f"      head {Head(commit=backup.head_commit, hash=backup.head_hash).short}")
        if backup.checks is not None:
            console.print(_verified(backup.checks), _drilled(backup.checks), sep="\n")
        for problem in backup.problems:
            console.print(f"      {problem}")
        for each in backup.notes:
            console.print(f"      note: {each}")


def _status_line(backup: BackupStatus) -> str:
    if not backup.restorable_to_ms:
        return f"  !!  {backup.backup}"
    age = "dated in the future" if backup.age_s < 0 else f"{format_duration(backup.age_s)} old"
    return (
        f"  {'ok' if backup.safe else '!!'}  {backup.backup}: restorable from {format_time(backup.restorable_from_ms)} "
        f"to {format_time(backup.restorable_to_ms)}, {age}"
    )


def _verified(checks: LastChecks) -> str:
    told = (
        f"{each.depth} {format_time(each.verified_at_ms)} {'ok' if each.ok else f'{each.damaged} DAMAGED'}"
        for each in checks.verified
    )
    return f"      last verify: {', '.join(told) or 'never'}"


def _drilled(checks: LastChecks) -> str:
    if checks.drill is None:
        return "      last drill: never"
    verdict = {True: "proven", False: "NOT PROVEN", None: "nothing proven"}[checks.drill.proven]
    before = f", last proven {format_time(checks.proven_ms) if checks.proven_ms >= 0 else 'never'}"
    return f"      last drill: {format_time(checks.drill.ended_ms)} {verdict}{'' if checks.drill.proven else before}"
