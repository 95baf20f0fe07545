"""Observes all low-level backups of one declared backup, and the places in which they lie. Facts about a backup are
read from its repository, and read again only after a new commit.

One repository may have several spellings: through a link, with a trailing slash, with `?region=`. Two spellings are one
place only if an object written through either is readable through the other at once. A copy of a repository has the
same id, ledgers and backups, and is another place nevertheless: objects in a copy prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from offsite.model.clock import MOST_APART_MS
from offsite.model.errors import Damaged, NoRepository, OffsiteError, StoreDenied
from offsite.model.ids import random_id
from offsite.model.journal import decided
from offsite.model.names import named
from offsite.model.units import format_time
from offsite.operator.decide.desired import DesiredAgents, RepositoryPlace
from offsite.operator.decide.observed import ObservedAgents, ObservedBackup, ObservedLowLevel
from offsite.points.point_cut import default_point
from offsite.repository.commit import PassProgress
from offsite.repository.commit_history import CommitSummary
from offsite.repository.declared.history import BackupPhase, DeclaredHistory, Located, LowLevelBackup, rank
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import declared_ledger
from offsite.repository.declared.notes import AgentReport, get_agent_report
from offsite.repository.json_form import FORMAT, encode_object
from offsite.repository.layout import BackupLayout
from offsite.repository.lease import Lease, ProcessIdentity
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.stores.store import ObjectInfo, Store

_CACHED_MAX = 4096
"""Backups with cached facts: more than one operator manages."""
_NAMED_MAX = 5
_CHARS_MAX = 500
"""Limits of the text about left-out partitions: partitions named, and characters."""

OpenStore = Callable[[RepositoryPlace], Store]
"""Open the store of a place with the credentials of its account. Raises `BadResource`, `BadRepositoryUrl`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFacts:
    """The facts about a backup in a repository. `is_whole`: a commit held all topics of the backup once. Restorable
    points: commit (0: none) and time (epoch ms, -1: none). `partial_ms`: the last time the pass under way made
    progress. `left_behind`: partitions that the newest run could not back up, with error ids; empty: none."""

    is_whole: bool = False
    oldest_commit: int = 0
    oldest_ms: int = -1
    latest_commit: int = 0
    latest_ms: int = -1
    partial_ms: int = -1
    left_behind: str = ""


class FactsReader(Protocol):
    def read(self, place: RepositoryPlace, store: Store, backup: str) -> BackupFacts:
        """Return the facts about the backup of that name; empty facts if the backup does not exist yet. `place`: the
        place of `store`; two places may have one URL. Raises the errors of reading a backup."""


class AgentRuntime(Protocol):
    """The processes that copy, of all resources of a home."""

    def observe(self, uid: str) -> ObservedAgents: ...

    def configure(self, uid: str, agents: DesiredAgents | None) -> None:
        """Run the agents as configured; None: run no agents. Returns before the change takes effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """The means to observe."""

    open_store: OpenStore
    facts: FactsReader
    agents: AgentRuntime
    identity: ProcessIdentity


def observe_backup(
    observer: Observer, uid: str, places: Iterable[RepositoryPlace], *, ledger: str = ""
) -> ObservedBackup:
    """Observe all low-level backups that the resource `uid` ever had in `places`. `ledger`: name of the ledger, if
    different from the uid. Raises the errors of a store for a ledger: an unreadable ledger is never taken for an absent
    one."""
    lows = [backup for place in dict.fromkeys(places) for backup in _in_place(observer, ledger or uid, place)]
    remaining = [backup for backup in lows if backup.low.phase is not BackupPhase.REMOVED]
    located = {id(backup): Located(ledger=str(backup.place), low=backup.low) for backup in remaining}
    among = tuple(located.values())
    remaining.sort(key=lambda backup: rank(located[id(backup)], among))
    removed_ms = max((backup.low.removed_ms for backup in lows), default=0)
    return ObservedBackup(backups=tuple(remaining), agents=observer.agents.observe(uid), removed_ms=removed_ms)


def read_history(store: Store, uid: str) -> DeclaredHistory:
    """Read the decisions about a resource in a store. Raises `DamagedObject`, and the errors of the store."""
    return declared_ledger(store, uid).read()


def _in_place(observer: Observer, uid: str, place: RepositoryPlace) -> Iterator[ObservedLowLevel]:
    store, layout = observer.open_store(place), DeclaredLayout(uid=uid)
    history = read_history(store, uid)
    newest = history.backups[-1] if history.backups else None
    terms = layout.agent(store)
    is_held = newest is not None and terms.holder(asking=observer.identity) is not None
    for low in history.backups:
        # the agent holds the newest backup, or the backup before until the agent reads the new entry
        observed = _seen(observer, store, place, low, is_copied=is_held and low is newest)
        yield _with_signs(store, layout, terms, observed) if low.phase is BackupPhase.RUNNING else observed


def _with_signs(store: Store, layout: DeclaredLayout, terms: Lease, observed: ObservedLowLevel) -> ObservedLowLevel:
    """Add the signs of progress: a commit of a pass, the report of the agent, or the start or resume of the backup. A
    sign dated in the future does not count."""
    word, now_ms = _word(store, layout, terms, observed.low.number), store.now_ms()
    signs = (
        ("its last start or resume", observed.low.running_ms),
        ("its newest commit", observed.latest_ms),
        ("its newest commit", observed.partial_ms),
        ("the report of its agent", word.well_ms),
    )
    well_ms = max((at_ms for _, at_ms in signs if at_ms - now_ms <= MOST_APART_MS), default=0)
    ahead = {sign: at_ms for sign, at_ms in signs if at_ms - now_ms > MOST_APART_MS}
    return replace(
        observed,
        well_ms=max(well_ms, 0),
        quiet_ms=now_ms - well_ms,
        outage=word.why,
        missing=word.missing,
        ahead=" and ".join(f"{sign} is dated {format_time(at_ms)}" for sign, at_ms in ahead.items()),
    )


def _word(store: Store, layout: DeclaredLayout, terms: Lease, number: int) -> AgentReport:
    """Return the report of the agent that took the lease last. A report of an earlier agent shows nothing about later
    times: the earlier agent may have slept since, or may still write reports."""
    word, newest = get_agent_report(store, layout), terms.newest()
    if word is None or newest is None or word.number != number or word.term > newest.term:
        return AgentReport(number=number)
    if word.term < newest.term:
        return replace(word, well_ms=min(word.well_ms, newest.since_ms), why="")
    return word


def _seen(
    observer: Observer, store: Store, place: RepositoryPlace, low: LowLevelBackup, *, is_copied: bool
) -> ObservedLowLevel:
    if low.phase in {BackupPhase.REMOVING, BackupPhase.REMOVED}:
        return ObservedLowLevel(place=place, low=low, is_copied=is_copied)
    facts, problem = BackupFacts(), ""
    behind = low.origin.last.commit if low.origin is not None else 0  # earlier commits make nothing whole
    try:
        facts = observer.facts.read(place, store, low.beginning.backup)
    except OffsiteError as error:
        problem = f"{error.id}: {error.message}"
    return ObservedLowLevel(
        place=place,
        low=low,
        is_whole=facts.is_whole and facts.latest_commit > behind,
        is_copied=is_copied,
        oldest_commit=facts.oldest_commit,
        oldest_ms=facts.oldest_ms,
        latest_commit=facts.latest_commit,
        latest_ms=facts.latest_ms,
        partial_ms=facts.partial_ms,
        left_behind=facts.left_behind,
        problem=problem,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedFacts:
    """`descriptor`: bytes of the descriptor; they differ after the backup was deleted and created again. `seq`: number
    of the newest commit; `newest`: its object, which differs after another copy of the backup was put back."""

    descriptor: bytes
    seq: int
    newest: ObjectInfo | None
    facts: BackupFacts
    progress: PassProgress | None


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """Implements `FactsReader`. A read of a backup without a new commit costs three requests."""

    _cache: dict[tuple[RepositoryPlace, str], _CachedFacts] = field(default_factory=dict, init=False, repr=False)

    def read(self, place: RepositoryPlace, store: Store, backup: str) -> BackupFacts:
        layout, key = BackupLayout(backup=backup), (place, backup)
        descriptor, cached = store.get(layout.descriptor_key), self._cache.get(key)
        if descriptor is None:
            self._cache.pop(key, None)
            return BackupFacts()
        is_new = cached is None or cached.descriptor != descriptor
        if cached is not None and not is_new and _is_newest(store, layout, cached):
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
            newest = store.head(layout.commit_key(state.seq))
            self._cache[key] = _CachedFacts(
                descriptor=descriptor, seq=state.seq, newest=newest, facts=facts, progress=state.progress
            )
        return facts


def _is_newest(store: Store, layout: BackupLayout, cached: _CachedFacts) -> bool:
    """Whether the commit behind the facts is still there, and the newest one."""
    is_there = store.head(layout.commit_key(cached.seq)) == cached.newest
    return is_there and store.head(layout.commit_key(cached.seq + 1)) is None


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


@dataclass(slots=True)
class RepositoryAliases:
    """The aliases that the process has found. `_apart`: compared pairs that are two repositories."""

    _ids: dict[RepositoryPlace, str] = field(default_factory=dict, init=False)
    _apart: set[tuple[RepositoryPlace, RepositoryPlace]] = field(default_factory=set, init=False)

    def distinct(self, observer: Observer, uid: str, places: Iterable[RepositoryPlace]) -> tuple[RepositoryPlace, ...]:
        """Return `places` without aliases of a later place. A place that cannot be compared counts as another place:
        the user of the place sees the error."""
        distinct_places = list[RepositoryPlace]()
        for place in dict.fromkeys(places):
            distinct_places = [before for before in distinct_places if not self._is_same(observer, uid, before, place)]
            distinct_places.append(place)
        return tuple(distinct_places)

    def _is_same(self, observer: Observer, uid: str, place: RepositoryPlace, other: RepositoryPlace) -> bool:
        if (place, other) in self._apart:
            return False
        try:
            is_same = self._id(observer, place) == self._id(observer, other) and _is_one(
                observer.open_store(place), observer.open_store(other), DeclaredLayout(uid=uid)
            )
        except OffsiteError:
            return False
        if is_same:
            decided("same_place", why="both addresses lead to the same objects", uid=uid, instead=place)
        else:
            self._apart.add((place, other))
        return is_same

    def _id(self, observer: Observer, place: RepositoryPlace) -> str:
        if place not in self._ids:
            self._ids[place] = Repository.open(observer.open_store(place)).descriptor.repository_id
        return self._ids[place]


def prove_writable(store: Store, layout: DeclaredLayout) -> None:
    """Raises `StoreDenied` if a written object cannot be read again, and the errors of the store."""
    if not _is_one(store, store, layout):
        raise StoreDenied(
            f"an object written to {store.url} cannot be read again", hint="check the permissions of its account"
        )


def find_current_account(observer: Observer, uid: str, places: Iterable[RepositoryPlace], *, ledger: str = "") -> str:
    """Return the account in use by a resource without an account: the account of its live or last backup; empty if no
    backup ever started. Hence the order of accounts matters only for a new backup."""
    names = {place.account: place for place in places}
    if len(names) < 2:  # no choice
        return next(iter(names), "")
    observed = observe_backup(observer, uid, names.values(), ledger=ledger)
    newest = observed.live or next(reversed(observed.backups), None)
    return newest.place.account if newest is not None else ""


def _is_one(store: Store, other: Store, layout: DeclaredLayout) -> bool:
    """Whether an object written through every store is readable through the other at once. Both directions are needed:
    a replicated store shows the copy in one direction only."""
    return _reaches(store, other, layout) and (store is other or _reaches(other, store, layout))


def _reaches(store: Store, other: Store, layout: DeclaredLayout) -> bool:
    word = random_id(16)
    key, data = layout.probe_key(word), encode_object({"format": FORMAT, "word": word})
    try:
        store.put_if_absent(key, data)
        return other.get(key) == data
    finally:
        with suppress(OffsiteError):  # a leftover probe is never read
            store.delete(key)
