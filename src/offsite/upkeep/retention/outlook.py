"""A backup's retention at a glance, for status, metrics and pages: kept points, reasons, next expiry. Reads no data."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.repository.backup import Backup
from offsite.repository.replaced import collected_hint
from offsite.repository.state import BackupState
from offsite.upkeep.retention.note import BY, get_note
from offsite.upkeep.retention.report import DONE, audit_reports


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOutlook:
    """The retention of a backup. `applied_ms`: when retention last removed something (epoch ms by the store's clock, 0:
    never), `rule`: the policy; `applied_commit`: the commit. `restore_points`: the number of kept points; `pinned`: the
    number of pinned ones. Of the unpinned points `next_commit` may expire first, at `next_ms` at the earliest (0: no
    time known). `waiting_bytes`: expired, and not yet collected."""

    applied_ms: int
    applied_commit: int
    rule: str
    restore_points: int
    pinned: int
    next_commit: int
    next_ms: int
    waiting_bytes: int


def retention_outlook(backup: Backup, state: BackupState) -> RetentionOutlook | None:
    """The outlook of a backup; None without any retention and without pins. Raises errors of the store."""
    note = get_note(backup)
    if note is None and not state.pins:
        return None
    return RetentionOutlook(
        applied_ms=note.at_ms if note else 0,
        applied_commit=note.commit if note else 0,
        rule=note.rule if note else "",
        restore_points=len(state.history),
        pinned=len(state.pins),
        next_commit=note.next_commit if note else 0,
        next_ms=note.next_ms if note else 0,
        waiting_bytes=_waiting_bytes(backup) if note else 0,
    )


def _waiting_bytes(backup: Backup) -> int:
    """The bytes expired by commits after the last collection, according to the audit lines of existing commits."""
    lines = audit_reports(backup, after=max(0, collected_hint(backup).done_upto - 1))
    return sum(line.bytes for line in lines if line.by == BY and line.state == DONE)
