"""Observes all low-level backups of one declared backup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from offsite.model.clock import MOST_APART_MS
from offsite.model.errors import OffsiteError
from offsite.model.units import format_time
from offsite.operator.decide.seen import ObservedBackup, ObservedLowLevel
from offsite.operator.decide.wanted import RepositoryPlace
from offsite.operator.world.ports import AgentRuntime, BackupFacts, FactsReader, OpenStore
from offsite.repository.declared.history import BackupPhase, DeclaredHistory, Located, LowLevelBackup, rank
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import DeclaredLedger
from offsite.repository.declared.notes import AgentReport, get_agent_report
from offsite.repository.restores.lease import LeaseTerms, ProcessIdentity
from offsite.stores.store import Store


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
    return DeclaredLedger(store=store, layout=DeclaredLayout(uid=uid)).read()


def _in_place(observer: Observer, uid: str, place: RepositoryPlace) -> Iterator[ObservedLowLevel]:
    store, layout = observer.open_store(place), DeclaredLayout(uid=uid)
    history = read_history(store, uid)
    newest = history.backups[-1] if history.backups else None
    terms = LeaseTerms(store=store, lease=layout.agent)
    is_held = newest is not None and terms.holder(asking=observer.identity) is not None
    for low in history.backups:
        # the agent holds the newest backup, or the backup before until the agent reads the new entry
        observed = _seen(observer, store, place, low, is_copied=is_held and low is newest)
        yield _with_signs(store, layout, terms, observed) if low.phase is BackupPhase.RUNNING else observed


def _with_signs(
    store: Store, layout: DeclaredLayout, terms: LeaseTerms, observed: ObservedLowLevel
) -> ObservedLowLevel:
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


def _word(store: Store, layout: DeclaredLayout, terms: LeaseTerms, number: int) -> AgentReport:
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
