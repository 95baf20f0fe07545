"""What backups hold, read from their repositories, and read again only when a commit has come."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from offsite.copy.point_cut import default_point
from offsite.model.errors import Damaged, NoRepository
from offsite.model.named import named
from offsite.operator.decide.wanted import Place
from offsite.operator.world.ports import BackupFacts
from offsite.repository.commit import PassProgress
from offsite.repository.history import CommitSummary
from offsite.repository.layout import BackupLayout
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.stores.store import Store

_KEPT_MAX = 4096
"""Backups whose facts are kept: more than one operator looks after."""
_NAMED_MAX = 5
_CHARS_MAX = 500
"""Of what is left behind: partitions, and characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """`descriptor`: bytes that are another backup's when it is made anew; `seq`: the newest commit."""

    descriptor: bytes
    seq: int
    facts: BackupFacts
    progress: PassProgress | None


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """The port `Facts`. A look at a backup without news costs two requests."""

    _known: dict[tuple[Place, str], _Known] = field(default_factory=dict, init=False, repr=False)

    def of(self, place: Place, store: Store, backup: str) -> BackupFacts:
        layout, key = BackupLayout(backup=backup), (place, backup)
        descriptor, known = store.get(layout.descriptor_key), self._known.get(key)
        if descriptor is None:
            self._known.pop(key, None)
            return BackupFacts()
        is_new = known is None or known.descriptor != descriptor
        if known is not None and not is_new and store.head(layout.commit_key(known.seq + 1)) is None:
            return known.facts
        try:
            state = Repository.open(store).backup(backup).sound_state()
        except NoRepository:  # removed since
            return BackupFacts()
        facts = facts_of(state, _default_commit(store, state))
        if known is not None and not is_new and state.incomplete and known.progress == state.progress:
            facts = replace(facts, partial_ms=known.facts.partial_ms)  # retention commits copy nothing
        if len(self._known) >= _KEPT_MAX:
            self._known.clear()
        if not state.unreadable:
            self._known[key] = _Known(descriptor=descriptor, seq=state.seq, facts=facts, progress=state.progress)
        return facts


def _default_commit(store: Store, state: BackupState) -> int:
    try:
        return default_point(store, state).commit
    except Damaged:  # whoever restores is told
        return state.seq


def facts_of(state: BackupState, default: int = 0) -> BackupFacts:
    """What a state tells. It is whole once a pass over all topics was complete; one can restore to the newest such
    pass, and not to what a pass under way has committed so far. `default`: the commit that a restore goes to
    (0: not known)."""
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
    """The newest complete pass, or the earlier one that a restore goes to for the sake of its cut."""
    complete, goes_to = state.history.latest_at(state.completed_at_ms), state.history.find(default)
    return goes_to if complete is None or (goes_to is not None and goes_to.seq < complete.seq) else complete


def _left_behind(state: BackupState) -> str:
    told = [f"{each.partition_id} ({each.error})" for each in state.left_behind]
    return named(told, most=_NAMED_MAX)[:_CHARS_MAX]
