"""The view of a repository's checks, as it remembers them itself."""

from __future__ import annotations

from dataclasses import replace

from offsite.repository.backup import Backup
from offsite.repository.state import BackupState
from offsite.services.monitor.view import RepositoryView
from offsite.services.overview.last_checks import LastChecks, read_last_checks
from offsite.services.retention.outlook import retention_outlook


def read_repository_view(backup: Backup, state: BackupState, *, now_ms: int) -> RepositoryView:
    """The last checks of `backup`, of which `state` is the newest, and what is kept of it: a few requests to the store.
    `now_ms` is its clock, roughly. Raises `StoreUnavailable`, `StoreDenied`."""
    checks = repository_view(read_last_checks(backup, now_ms=now_ms))
    return replace(checks, retention=retention_outlook(backup, state))


def repository_view(checks: LastChecks) -> RepositoryView:
    """The same of checks that were read. `damaged` is the worst that a check found that no later one outdoes, also one
    that others claim to have made."""
    damaged = max((each.damaged for each in checks.damage), default=0)
    return RepositoryView(
        verified_ms={each.depth: each.verified_at_ms for each in checks.verified},
        damaged=damaged if checks.verified or damaged else None,
        drilled_ms=checks.proven_ms,
        claimed_ms={each.depth: each.verified_at_ms for each in checks.claimed},
        claimed_drill_ms=checks.claimed_ms,
    )
