"""The verdict over a repository and its living source, in the words of the command line and of all pages. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from offsite.model.names import amount, named
from offsite.model.units import format_duration, format_time
from offsite.overview.comparison import SourceComparison
from offsite.overview.status import BackupStatus, Status
from offsite.reports.html_page import VerdictStyle
from offsite.upkeep.verification.last_checks import LastChecks

_NAMED_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`word`: for a terminal. `sentence`: for pages."""

    word: str
    sentence: str
    style: VerdictStyle


def verdict_of(status: Status) -> Verdict:
    """The verdict over all backups. Safe is good only where every backup was proven."""
    if not status.backups:
        return Verdict(word="ATTENTION", sentence="There is no backup yet.", style=VerdictStyle.WARN)
    if not status.safe:
        unsafe = sum(not backup.safe for backup in status.backups)
        verb = "needs" if unsafe == 1 else "need"
        sentence = f"Not safe. {unsafe} of {len(status.backups)} backups {verb} attention."
        return Verdict(word="ATTENTION", sentence=sentence, style=VerdictStyle.BAD)
    oldest_s = max(max(1, backup.age_s) for backup in status.backups)
    points = "point" if len(status.backups) == 1 else "points at most"
    newest = f"{amount(len(status.backups), 'backup')}, newest restore {points} {format_duration(oldest_s)} old."
    unproven = [backup.backup for backup in status.backups if not backup.proven]
    if not unproven:
        return Verdict(word="SAFE", sentence=f"Safe. {newest}", style=VerdictStyle.GOOD)
    why = f"Never verified nor drilled on this machine: {named(unproven, most=_NAMED_MAX)}."
    return Verdict(word="SAFE, never proven", sentence=f"Safe, never proven. {newest} {why}", style=VerdictStyle.WARN)


def backup_word(backup: BackupStatus) -> tuple[str, VerdictStyle]:
    """The verdict over one backup."""
    if not backup.safe:
        return "damaged" if backup.damaged else "needs attention", VerdictStyle.BAD
    return ("safe", VerdictStyle.GOOD) if backup.proven else ("safe, never proven", VerdictStyle.WARN)


def source_alarm(status: Status) -> str:
    """The losses at the sources of all backups in a sentence; empty without a loss."""
    sources = [backup.source for backup in status.backups if backup.source is not None]
    lost = [f"{topic.topic} ({topic.state})" for source in sources for topic in source.alarmed]
    return f"Lost at the source: {named(lost, most=_NAMED_MAX)}. The backup keeps what it had copied." if lost else ""


def rests_on(backup: BackupStatus) -> str:
    """What a verdict rests on: the newest restore point, the last verification and the last drill."""
    point = f"commit {backup.default_commit}, complete to {format_time(backup.restorable_to_ms)}"
    point = point if backup.restorable_to_ms else "no restore point"
    return f"Rests on: {point}; {_checks(backup.checks)}"


def _checks(checks: LastChecks | None) -> str:
    if checks is None:
        return "the last checks cannot be read"
    newest = max(checks.verified, key=lambda record: record.verified_at_ms, default=None)
    outcome = "" if newest is None else "sound" if newest.ok else "DAMAGE"
    verified = "never" if newest is None else f"{newest.depth}, {format_time(newest.verified_at_ms)}, {outcome}"
    proven = format_time(checks.proven_ms) if checks.proven_ms >= 0 else "never"
    return f"last verification: {verified}; last proven by a drill: {proven}"


def proving_command(backup: str) -> str:
    """The command that proves a backup."""
    return shlex.join(["offsite", "restore", "drill", f"--backup={backup}", "--sandbox"])


def restoring_command(backup: str, words: Mapping[str, str]) -> str:
    """The command that plans the restore of what a source lost. Changes nothing."""
    options = [f"--{name}={text}" for name, text in words.items()]
    return shlex.join(["offsite", "restore", "plan", f"--backup={backup}", *options])


def source_age(source: SourceComparison) -> str:
    """How old the newest look is."""
    if source.looked_ms < 0:
        return "never compared"
    return f"compared {format_duration(max(1.0, source.age_s))} ago"
