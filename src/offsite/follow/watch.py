"""What a run that follows shows of itself: a view, rebuilt after every round from the observations of the round, the
checks that the repository recorded, and the durations of the process's requests to its store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from offsite.backup.outages import Outage
from offsite.engine.runner import RunProgress
from offsite.follow.follower import Round
from offsite.follow.topic_views import TopicViews
from offsite.kafka.admin import ClusterAdmin
from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.model.journal import warned
from offsite.monitor.view import Durations, FollowView, RepositoryView
from offsite.repository.backup import Backup
from offsite.repository.local_memory import LastLook
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.stores.wrapped_store import TimedStore
from offsite.upkeep.retention.missing_points import let_go_since
from offsite.upkeep.retention.report import retention_outlook
from offsite.upkeep.verification.last_checks import LastChecks, read_last_checks

CHECKS_EVERY_S = 600.0
"""Seconds between two readings of the recorded verifications and drills."""
ALIVE_EVERY_S = 5.0


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


def counted(repository: Repository, durations: Durations) -> Repository:
    """The repository with a store that reports every request of the process to `durations`."""
    return replace(repository, store=TimedStore(repository.store, durations.note_request))


class FollowWatch:
    """Keeps the view of a run; `show` receives every new view."""

    def __init__(  # all by keyword but the view to begin with
        self,
        view: FollowView,
        *,
        backup: Callable[[], Backup],
        settings: ClusterAdmin,
        clock: Clock,
        show: Callable[[FollowView], None],
    ) -> None:
        self._view = view
        self._backup, self._clock, self._show = backup, clock, show
        self._topics = TopicViews(settings, clock)
        self._look: LastLook | None = None
        self._let_go = Counter[str]()
        self._checked_s = self._shown_s = clock.monotonic_s() - CHECKS_EVERY_S

    def round(self, last_round: Round) -> None:
        """Take a finished round."""
        view, state, result = self._view, last_round.state, last_round.result
        failed = Counter(failure.error for failure in state.left_behind)
        view = replace(
            view,
            round_ended_ms=self._clock.now_ms(),
            rounds=view.rounds + 1,
            commits=view.commits + len(last_round.commits_s),
            passes=view.passes + (not failed),
            pass_complete=not failed,
            head_commit=state.seq,
            last_commit_ms=state.committed_at_ms,
            holes=Counter(hole.reason for hole in state.holes if hole.is_loss),
            late_topics=sum(shape.late is not None for shape in state.latest_shapes().values()),
            failed=failed,
            retried_partitions=Counter(view.retried_partitions) + Counter(view.failed),
            progress=1.0,
            outage=None,
            throttled_ms=view.throttled_ms + int(last_round.throttled_s * 1000),
        )
        view.durations.rounds.observe(last_round.took_s)
        for commit_s in last_round.commits_s:
            view.durations.commits.observe(commit_s)
        if result is not None:
            view = replace(
                view,
                records=view.records + result.records,
                bytes_read=view.bytes_read + result.bytes,
                bytes_written=view.bytes_written + result.stored_bytes,
            )
        self._set(self._with_checks(replace(view, topics=tuple(self._topics.of(last_round))), state))

    def outage(self, outage: Outage | None) -> None:
        """Take a failed round, or the end of an outage: the run copies again, and is not up to date yet."""
        view = self._view
        if outage is None:
            if view.outage is not None:
                self._set(replace(view, outage=None, pass_complete=False))
            return
        error = outage.error
        view = replace(view, retries=Counter(view.retries) + Counter([error.id]))
        if outage.attempts == 1:
            view = replace(view, outages=Counter(view.outages) + Counter([error.id]))
        self._set(replace(view, outage=outage))

    def progress(self, now: RunProgress) -> None:
        """Take a sign of life of a round under way."""
        if self._clock.monotonic_s() - self._shown_s >= ALIVE_EVERY_S:
            tasks_ended = now.tasks_done + now.tasks_failed
            self._set(replace(self._view, progress=tasks_ended / now.tasks_total if now.tasks_total else None))

    def _set(self, view: FollowView) -> None:
        self._view, self._shown_s = view, self._clock.monotonic_s()
        self._show(view)

    def _with_checks(self, view: FollowView, state: BackupState) -> FollowView:
        """Add the recorded checks to the view. An unreadable part keeps its last value."""
        if self._clock.monotonic_s() - self._checked_s < CHECKS_EVERY_S:
            return view
        self._checked_s = self._clock.monotonic_s()
        try:
            backup = self._backup()
            repository_view = read_repository_view(backup, state, now_ms=self._clock.now_ms())
            return replace(view, repository=replace(repository_view, let_go=self._let_go_by(backup, state)))
        except OffsiteError as error:
            warned("checks_unread", error=error.id, why=error.message)
            return view

    def _let_go_by(self, backup: Backup, state: BackupState) -> Counter[str]:
        """How many restore points went since the process began, by kind of work."""
        for gone in let_go_since(backup, self._look, state) if self._look is not None else ():
            self._let_go[gone.by or "nobody"] += gone.points
        self._look = LastLook.at(state)
        return Counter(self._let_go)
