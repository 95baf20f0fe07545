"""Shows the status of a repository, for people: a screen that says whether every backup is safe, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsite.model.head import Head
from offsite.model.units import format_duration, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from offsite.overview.status import BackupStatus, Status
    from offsite.repository.removal import RemovedBackup
    from offsite.repository.snapshots.check_records import DrillRecord, VerifyRecord
    from offsite.upkeep.retention.outlook import RetentionOutlook
    from offsite.upkeep.verification.last_checks import LastChecks


_VERDICTS = {True: "proven", False: "NOT PROVEN", None: "nothing proven"}


def render_status(console: Console, report: Status) -> None:
    console.print(f"{'SAFE' if report.safe else 'ATTENTION'}  {report.repository}")
    if not report.backups:
        console.print("  no backup yet", "next: offsite backup run --backup NAME --topics '*'", sep="\n")
    for backup in report.backups:
        console.print(_status_line(backup))
        if backup.head_commit:
            console.print(f"      head {Head(commit=backup.head_commit, hash=backup.head_hash).short}")
        if backup.checks is not None:
            for line in (_verified(backup.checks), _drilled(backup.checks), *_claimed(backup.checks)):
                console.print(line)
        if backup.retention is not None:
            console.print(_kept(backup.retention))
        for problem in backup.problems:
            console.print(f"      {problem}")
        for backup_note in backup.notes:
            console.print(f"      note: {backup_note}")
    around = (f"note: {note}" for note in report.notes)
    for line in (*around, *(f"removed on purpose: {_removed(removed)}" for removed in report.removed)):
        console.print(f"  {line}")


def _removed(removed: RemovedBackup) -> str:
    why = f": {removed.why}; {removed.by}, by {removed.who}" if removed.who else ", as its ledger says"
    return f"{removed.backup}, {format_time(removed.at_ms)}{why}"


def _status_line(backup: BackupStatus) -> str:
    if not backup.restorable_to_ms:
        return f"  !!  {backup.backup}"
    age = "dated in the future" if backup.age_s < 0 else f"{format_duration(backup.age_s)} old"
    return (
        f"  {'ok' if backup.safe else '!!'}  {backup.backup}: restorable from {format_time(backup.restorable_from_ms)} "
        f"to {format_time(backup.restorable_to_ms)}, {age}"
    )


def _verified(checks: LastChecks) -> str:
    return f"      last verify: {', '.join(map(_check, checks.verified)) or 'never on this machine'}"


def _check(record: VerifyRecord) -> str:
    outcome = "ok" if record.ok else f"{record.damaged} DAMAGED"
    return f"{record.depth} {format_time(record.verified_at_ms)} {outcome}"


def _claimed(checks: LastChecks) -> Iterator[str]:
    """Yield the repository's claims about checks made elsewhere."""
    for record in checks.claimed:
        yield f"{_claim_of(record)} verify {_check(record)}"
    if (drill := checks.claimed_drill) is not None:
        drill_text = f"drill {format_time(drill.ended_ms)} {_VERDICTS[drill.proven]}"
        yield f"{_claim_of(drill)} {drill_text}"


def _claim_of(record: VerifyRecord | DrillRecord) -> str:
    return f"      claimed by {record.by or 'an unknown installation'}, not made on this machine:"


def _drilled(checks: LastChecks) -> str:
    if checks.drill is None:
        return "      last drill: never on this machine"
    verdict = _VERDICTS[checks.drill.proven]
    before = f", last proven {format_time(checks.proven_ms) if checks.proven_ms >= 0 else 'never'}"
    return f"      last drill: {format_time(checks.drill.ended_ms)} {verdict}{'' if checks.drill.proven else before}"


def _kept(outlook: RetentionOutlook) -> str:
    summary = f"      kept: {outlook.restore_points:,} restore points, {outlook.pinned} pinned"
    if not outlook.applied_ms:
        return f"{summary}; retention has deleted nothing yet"
    gone = f"commit {outlook.applied_commit} of {format_time(outlook.applied_ms)} deleted data {outlook.rule}"
    waiting = f", {format_size(outlook.waiting_bytes)} wait for collection" if outlook.waiting_bytes else ""
    after = f", not before {format_time(outlook.next_ms)}" if outlook.next_ms else ""
    following = f"; next: commit {outlook.next_commit}{after}" if outlook.next_commit else ""
    return f"{summary}; {gone}{waiting}{following}"
