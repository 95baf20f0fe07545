"""What the plots of a backup are made of, read from its repository.

A coordinator reads in the background, and keeps what never changes: a page waits a moment, and shows what is known by
then.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from offsite.model.errors import OffsiteError
from offsite.model.journal import failed, noted, safe_line, safe_trace
from offsite.overview.commit_figures import FiguresCache, RecentCommits
from offsite.overview.comparison import SourceComparison
from offsite.repository.backup import Backup
from offsite.repository.state import BackupState
from offsite.stores.wrapped_store import display_now_ms
from offsite.upkeep.verification.check_history import CheckHistory, PastCheck

PAGE_WAIT_S = 0.1
"""Seconds that a page waits for what it has not read yet. Most repositories are read by then."""
_STEP_BYTES = 4 * 1024 * 1024
"""Commits that are read in the background for one page, in bytes: the next page reads further. More would keep the
processor from other pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupHistory:
    """`now_ms`: the store's clock, epoch ms. `commits`, `checks`: as far as they were read."""

    state: BackupState
    now_ms: int
    commits: RecentCommits = field(default_factory=RecentCommits)
    checks: tuple[PastCheck, ...] = ()
    source: SourceComparison | None = None


def read_history(backup: Backup, *, source: SourceComparison | None = None) -> BackupHistory:
    """Read all of it, whatever it takes. Raises `DamagedCommit`, and errors of the store."""
    state, now_ms, figures = backup.readable_state(), display_now_ms(backup.store), FiguresCache()
    figures.fill(backup, state)
    checks = CheckHistory().read(backup, now_ms=now_ms)
    return BackupHistory(state=state, now_ms=now_ms, commits=figures.recent(state), checks=checks, source=source)


class HistoryReader:
    """The histories of the backups of a repository, for several threads. One is read at a time."""

    def __init__(self) -> None:
        self._figures, self._records = FiguresCache(), CheckHistory()
        self._checks: Mapping[str, tuple[PastCheck, ...]] = {}
        self._readings: dict[str, threading.Thread] = {}
        self._lock, self._turn = threading.Lock(), threading.Lock()

    def read(
        self, backup: Backup, *, source: SourceComparison | None = None, wait_s: float = PAGE_WAIT_S
    ) -> BackupHistory:
        """What is known within `wait_s`. Raises `DamagedCommit`, and errors of the store for the state."""
        state, now_ms = backup.readable_state(), display_now_ms(backup.store)
        self._begin(backup, state, now_ms).join(wait_s)
        return BackupHistory(
            state=state,
            now_ms=now_ms,
            commits=self._figures.recent(state),
            checks=self._checks.get(state.backup, ()),
            source=source,
        )

    def _begin(self, backup: Backup, state: BackupState, now_ms: int) -> threading.Thread:
        """The thread that reads the backup: a new one, unless one is at work."""
        with self._lock:
            thread = self._readings.get(state.backup)
            if thread is None or not thread.is_alive():
                thread = threading.Thread(
                    target=self._read, args=(backup, state, now_ms), name="offsite-history", daemon=True
                )
                self._readings[state.backup] = thread
                thread.start()
            return thread

    def _read(self, backup: Backup, state: BackupState, now_ms: int) -> None:
        with self._turn:
            try:
                self._checks = {**self._checks, state.backup: self._records.read(backup, now_ms=now_ms)}
                self._figures.fill(backup, state, bytes_max=_STEP_BYTES)
            except OffsiteError as error:
                noted("history_unread", error=error.id, why=error.message, backup=state.backup)
            except Exception as error:  # noqa: BLE001  # the page shows what is known, and the next one tries again
                failed("history_unread", why=safe_line(error), trace=safe_trace(error))
