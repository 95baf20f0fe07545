"""The view of a repository's checks, as recorded by the repository."""

from __future__ import annotations

from dataclasses import replace

from offsite.monitor.view import RepositoryView
from offsite.repository.backup import Backup
from offsite.repository.state import BackupState
from offsite.upkeep.retention.outlook import retention_outlook
from offsite.upkeep.verification.last_checks import LastChecks, read_last_checks


def read_repository_view(backup: Backup, state: BackupState, *, now_ms: int) -> RepositoryView:
    """Read the last checks of `backup`, with newest state `state`, and its retention: a few requests to the store.
    `now_ms`: approximately the store's clock. Raises `StoreUnavailable`, `StoreDenied`."""
    checks = repository_view(read_last_checks(backup, now_ms=now_ms))
    return replace(checks, retention=retention_outlook(backup, state))


def repository_view(checks: LastChecks) -> RepositoryView:
    """Make the view of given checks. `damaged`: the worst result of a check that no later check supersedes, claimed
    checks included."""
    damaged = max((record.damaged for record in checks.damage), default=0)
    return RepositoryView(
        verified_ms={record.depth: record.verified_at_ms for record in checks.verified},
        damaged=damaged if checks.verified or damaged else None,
        drilled_ms=checks.proven_ms,
        claimed_ms={record.depth: record.verified_at_ms for record in checks.claimed},
        claimed_drill_ms=checks.claimed_ms,
    )
