"""Facts about backups, read from their repositories, and read again only after a new commit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from offsite.model.errors import Damaged, NoRepository
from offsite.model.names import named
from offsite.operator.decide.wanted import RepositoryPlace
from offsite.operator.world.ports import BackupFacts
from offsite.points.point_cut import default_point
from offsite.repository.commit import PassProgress
from offsite.repository.commit_history import CommitSummary
from offsite.repository.layout import BackupLayout
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.stores.store import Store

_CACHED_MAX = 4096
"""Backups with cached facts: more than one operator manages."""
_NAMED_MAX = 5
_CHARS_MAX = 500
"""Limits of the text about left-out partitions: partitions named, and characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedFacts:
    """`descriptor`: bytes of the descriptor; they differ after the backup was deleted and created again. `seq`: number
    of the newest commit."""

    descriptor: bytes
    seq: int
    facts: BackupFacts
    progress: PassProgress | None


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """Implements `FactsReader`. A read of a backup without a new commit costs two requests."""

    _cache: dict[tuple[RepositoryPlace, str], _CachedFacts] = field(default_factory=dict, init=False, repr=False)

    def read(self, place: RepositoryPlace, store: Store, backup: str) -> BackupFacts:
        layout, key = BackupLayout(backup=backup), (place, backup)
        descriptor, cached = store.get(layout.descriptor_key), self._cache.get(key)
        if descriptor is None:
            self._cache.pop(key, None)
            return BackupFacts()
        is_new = cached is None or cached.descriptor != descriptor
        if cached is not None and not is_new and store.head(layout.commit_key(cached.seq + 1)) is None:
            return cached.facts
        try:
            state = Repository.open(store).backup(backup).sound_state()
        except NoRepository:  # removed in the meantime
            return BackupFacts()
        facts = summarize_state(state, _default_commit(store, state))
        if cached is not None and not is_new and state.incomplete and cached.progress == state.progress:
            facts = replace(facts, partial_ms=cached.facts.partial_ms)  # retention commits copy no records
        if len(self._cache) >= _CACHED_MAX:
            self._cache.clear()
        if not state.unreadable:
            self._cache[key] = _CachedFacts(descriptor=descriptor, seq=state.seq, facts=facts, progress=state.progress)
        return facts


def _default_commit(store: Store, state: BackupState) -> int:
    try:
        return default_point(store, state).commit
    except Damaged:  # a restore reports the damage
        return state.seq


def summarize_state(state: BackupState, default: int = 0) -> BackupFacts:
    """Summarize a state. A backup is whole after a complete pass over all topics. The newest restorable point is the
    newest complete pass, not the commits of the pass under way. `default`: the commit that a restore uses by default
    (0: unknown)."""
    if not state.history:
        return BackupFacts()
    oldest, is_whole = state.history[0], state.completed_at_ms > 0
    latest = _latest(state, default) if is_whole else None
    return BackupFacts(
        is_whole=is_whole,
        left_behind=_left_behind(state),
        oldest_commit=oldest.seq,
        oldest_ms=oldest.committed_at_ms,
        partial_ms=state.committed_at_ms if state.incomplete else -1,
        latest_commit=latest.seq if latest is not None else 0,
        latest_ms=latest.committed_at_ms if latest is not None else -1,
    )


def _latest(state: BackupState, default: int) -> CommitSummary | None:
    """The newest complete pass, or an earlier pass that a restore uses for its consistent cut."""
    complete, goes_to = state.history.latest_at(state.completed_at_ms), state.history.find(default)
    return goes_to if complete is None or (goes_to is not None and goes_to.seq < complete.seq) else complete


def _left_behind(state: BackupState) -> str:
    causes = [f"{partition.partition_id} ({partition.error})" for partition in state.left_behind]
    return named(causes, most=_NAMED_MAX)[:_CHARS_MAX]
