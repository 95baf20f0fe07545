"""Am I safe? as an HTML file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from offsite.model.errors import OffsiteError
from offsite.model.units import format_duration, format_time
from offsite.overview.glance import Glance, glance
from offsite.overview.status import BackupStatus, Status
from offsite.reports.html_page import VerdictStyle, document, facts, items, plot, tag, text, verdict
from offsite.repository.backup import Backup
from offsite.repository.snapshots.check_records import DrillRecord, VerifyRecord
from offsite.upkeep.verification.last_checks import LastChecks


def status_page(status: Status, glances: Mapping[str, Glance], now_ms: int) -> str:
    """Make the whole page. `glances`: further facts of every backup. `now_ms`: time of the page, by the store's
    clock."""
    parts = ["<h1>Am I safe?</h1>", _verdict(status)]
    parts.append(f'<p class="soft">Repository <code>{text(status.repository)}</code>, {text(_time(now_ms))}</p>')
    for backup in status.backups:
        parts += _backup(backup, glances.get(backup.backup, Glance()))
    return document("Am I safe?", parts)


def read_glances(status: Status, open_backup: Callable[[str], Backup]) -> dict[str, Glance]:
    """Read the facts of every readable backup; the status reports problems of the rest."""
    glances: dict[str, Glance] = {}
    for backup in status.backups:
        with suppress(OffsiteError):
            glances[backup.backup] = glance(open_backup(backup.backup))
    return glances


def describe_checks(checks: LastChecks | None) -> list[tuple[str, str]]:
    """The last checks and the last drill of a backup, by name; checks of other installations appear as claims."""
    if checks is None:
        return [("Checks", "the last checks cannot be read")]
    own_checks = [
        (f"Last {record.depth} check", f"{_time(record.verified_at_ms)}: {'sound' if record.ok else 'DAMAGE'}")
        for record in checks.verified
    ]
    claimed = [
        (
            f"Claimed {record.depth} check",
            f"{_time(record.verified_at_ms)}: {'sound' if record.ok else 'DAMAGE'}{_by(record)}",
        )
        for record in checks.claimed
    ]
    proven = _time(checks.proven_ms) if checks.proven_ms >= 0 else "never on this machine"
    if checks.drill is not None and not checks.drill.proven:
        own_checks.append(("Last drill", _drill(checks.drill)))
    if checks.claimed_drill is not None:
        claimed.append(("Claimed drill", f"{_drill(checks.claimed_drill)}{_by(checks.claimed_drill)}"))
    return [*(own_checks or [("Last check", "never on this machine")]), ("Last proven by a drill", proven), *claimed]


def _drill(drill: DrillRecord) -> str:
    said = {True: "proven", False: "NOT PROVEN", None: "nothing proven"}[drill.proven]
    return f"{_time(drill.ended_ms)}: {said}"


def _by(record: VerifyRecord | DrillRecord) -> str:
    return f", by {record.by or 'an unknown installation'}, not made on this machine"


def _verdict(status: Status) -> str:
    if status.safe:
        noun = "backup" if len(status.backups) == 1 else "backups"
        return verdict(f"Safe. {len(status.backups)} {noun}.", VerdictStyle.GOOD)
    if not status.backups:
        return verdict("There is no backup yet.", VerdictStyle.WARN)
    unsafe = sum(not backup.safe for backup in status.backups)
    verb = "needs" if unsafe == 1 else "need"
    return verdict(f"Not safe. {unsafe} of {len(status.backups)} backups {verb} attention.", VerdictStyle.BAD)


def _backup(status: BackupStatus, extras: Glance) -> Iterable[str]:
    said = "safe" if status.safe else "damaged" if status.damaged else "needs attention"
    yield f"<h2>{text(status.backup)} {tag(said, VerdictStyle.GOOD if status.safe else VerdictStyle.BAD)}</h2>"
    if status.problems:
        yield items(status.problems)
    ago = f" ({format_duration(max(1, status.age_s))} ago)" if status.restorable_to_ms else ""
    yield facts(
        {
            "Restorable to": f"{_time(status.restorable_to_ms)}{ago}",
            "Restorable from": _time(status.restorable_from_ms),
            "Last complete pass": _time(status.completed_ms),
            **extras.facts,
            **dict(describe_checks(status.checks)),
        }
    )
    yield from map(plot, extras.lines)
    if status.notes:
        yield items(status.notes)


def _time(time_ms: int) -> str:
    return f"{format_time(time_ms)[:19].replace('T', ' ')} UTC" if time_ms > 0 else "never"
