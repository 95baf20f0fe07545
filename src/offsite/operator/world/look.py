"""Observes all low-level backups of one declared backup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from offsite.model.clock import MOST_APART_MS
from offsite.model.errors import OffsiteError
from offsite.model.time import format_time
from offsite.operator.decide.seen import BackupSeen, LowLevelSeen
from offsite.operator.decide.wanted import Place
from offsite.operator.world.ports import Agents, BackupFacts, Facts, OpenStore
from offsite.repository.declared.agent_word import AgentWord, get_agent_word
from offsite.repository.declared.history import History, LowLevel, Phase
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import DeclaredLedger
from offsite.repository.declared.order import Located, rank
from offsite.repository.restores.lease import LeaseTerms
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Eyes:
    """The means to observe."""

    open_store: OpenStore
    facts: Facts
    agents: Agents
    identity: ProcessIdentity


def look(eyes: Eyes, uid: str, places: Iterable[Place], *, ledger: str = "") -> BackupSeen:
    """Observe all low-level backups that the resource `uid` ever had in `places`. `ledger`: name of the ledger, if
    different from the uid. Raises the errors of a store for a ledger: an unreadable ledger is never taken for an absent
    one."""
    found = [each for place in dict.fromkeys(places) for each in _in_place(eyes, ledger or uid, place)]
    there = [each for each in found if each.low.phase is not Phase.REMOVED]
    located = {id(each): Located(ledger=str(each.place), low=each.low) for each in there}
    among = tuple(located.values())
    there.sort(key=lambda each: rank(located[id(each)], among))
    removed_ms = max((each.low.removed_ms for each in found), default=0)
    return BackupSeen(backups=tuple(there), agents=eyes.agents.seen(uid), removed_ms=removed_ms)


def history_of(store: Store, uid: str) -> History:
    """Read the decisions about a resource in a store. Raises `DamagedObject`, and the errors of the store."""
    return DeclaredLedger(store=store, layout=DeclaredLayout(uid=uid)).read()


def _in_place(eyes: Eyes, uid: str, place: Place) -> Iterator[LowLevelSeen]:
    store, layout = eyes.open_store(place), DeclaredLayout(uid=uid)
    history = history_of(store, uid)
    newest = history.backups[-1] if history.backups else None
    terms = LeaseTerms(store=store, lease=layout.agent)
    is_held = newest is not None and terms.holder(asking=eyes.identity) is not None
    for low in history.backups:
        # the agent holds the newest backup, or the backup before until the agent reads the new entry
        seen = _seen(eyes, store, place, low, is_copied=is_held and low is newest)
        yield _heard(store, layout, terms, seen) if low.phase is Phase.RUNNING else seen


def _heard(store: Store, layout: DeclaredLayout, terms: LeaseTerms, seen: LowLevelSeen) -> LowLevelSeen:
    """Add the signs of progress: a commit of a pass, the report of the agent, or the start or resume of the backup. A
    sign dated in the future does not count."""
    word, now_ms = _word(store, layout, terms, seen.low.number), store.now_ms()
    signs = (
        ("that it was begun or resumed last", seen.low.running_ms),
        ("its newest commit", seen.latest_ms),
        ("its newest commit", seen.partial_ms),
        ("the word of its agent", word.well_ms),
    )
    well_ms = max((at_ms for _, at_ms in signs if at_ms - now_ms <= MOST_APART_MS), default=0)
    ahead = {what: at_ms for what, at_ms in signs if at_ms - now_ms > MOST_APART_MS}
    return replace(
        seen,
        well_ms=max(well_ms, 0),
        quiet_ms=now_ms - well_ms,
        outage=word.why,
        missing=word.missing,
        ahead=" and ".join(f"{what} is dated {format_time(at_ms)}" for what, at_ms in ahead.items()),
    )


def _word(store: Store, layout: DeclaredLayout, terms: LeaseTerms, number: int) -> AgentWord:
    """Return the report of the agent that took the lease last. A report of an earlier agent shows nothing about later
    times: the earlier agent may have slept since, or may still write reports."""
    word, newest = get_agent_word(store, layout), terms.newest()
    if word is None or newest is None or word.number != number or word.term > newest.term:
        return AgentWord(number=number)
    if word.term < newest.term:
        return replace(word, well_ms=min(word.well_ms, newest.since_ms), why="")
    return word


def _seen(eyes: Eyes, store: Store, place: Place, low: LowLevel, *, is_copied: bool) -> LowLevelSeen:
    if low.phase in {Phase.REMOVING, Phase.REMOVED}:
        return LowLevelSeen(place=place, low=low, is_copied=is_copied)
    facts, problem = BackupFacts(), ""
    behind = low.origin.last.commit if low.origin is not None else 0  # earlier commits make nothing whole
    try:
        facts = eyes.facts.of(place, store, low.beginning.backup)
    except OffsiteError as error:
        problem = f"{error.id}: {error.message}"
    return LowLevelSeen(
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
