"""An operator that enters something, and is stopped at its last line while others go on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import DamagedObject, LeaseHeld, LeaseTakenOver
from offsite.repository.declared.entry import DeclaredEntryKind
from offsite.repository.declared.history import BackupPhase, DeclaredHistory
from offsite.repository.declared.ledger import ProposedEntry, enter, enter_once
from offsite.stores.store import PutResult
from tests.memory_store import MemoryStore
from tests.unit.operator.work.declared import Declared
from tests.worlds.operator.world import identity

MINE, OTHER = identity("mine"), identity("other")


class StoppingStore(MemoryStore):
    """Whoever puts an entry is stopped before, while `meanwhile` happens."""

    meanwhile: Callable[[], None] | None = None

    def put_if_absent(self, key: str, data: object) -> PutResult:
        if "/ledger/" in key and (meanwhile := self.meanwhile) is not None:
            self.meanwhile = None
            meanwhile()
        return super().put_if_absent(key, data)  # type: ignore[arg-type]


def started_where_others_take_the_lock_over_and_stop() -> tuple[StoppingStore, Declared]:
    store = StoppingStore()
    declared = Declared(store)  # type: ignore[arg-type]
    declared.start()

    def others_decide() -> None:
        terms = declared.layout.lock(store)  # type: ignore[arg-type]
        claim = terms.claim(OTHER, "word", take_over=True)
        declared.decide(DeclaredEntryKind.STOPPED, fence=claim.term)
        terms.end(claim)

    store.meanwhile = others_decide
    return store, declared


def pause(_: DeclaredHistory) -> ProposedEntry:
    return ProposedEntry(kind=DeclaredEntryKind.PAUSED, number=1)


def test_who_lost_the_lock_while_it_was_stopped_decides_nothing_and_says_who_has_it() -> None:
    store, declared = started_where_others_take_the_lock_over_and_stop()
    with pytest.raises(LeaseTakenOver, match="on other"):
        enter(store, declared.uid, pause, by=MINE)  # type: ignore[arg-type]
    assert [low.phase for low in declared.history.backups] == [BackupPhase.STOPPED]


def test_what_is_to_be_said_is_asked_again_behind_what_others_said() -> None:
    store = StoppingStore()
    declared = Declared(store)  # type: ignore[arg-type]
    declared.start()
    seen = list[BackupPhase]()

    def said(history: DeclaredHistory) -> ProposedEntry | None:
        seen.append(history.backups[0].phase)
        return ProposedEntry(kind=DeclaredEntryKind.STOPPED, number=1) if history.live is not None else None

    store.meanwhile = lambda: declared.decide(DeclaredEntryKind.STOPPED)
    enter(store, declared.uid, said, by=MINE)  # type: ignore[arg-type]
    assert seen == [BackupPhase.RUNNING, BackupPhase.STOPPED]


def test_nothing_follows_a_state_by_a_lock_that_nobody_held_and_it_says_which_object_that_is() -> None:
    store = MemoryStore()
    declared = Declared(store)  # type: ignore[arg-type]
    declared.start()
    declared.decide(DeclaredEntryKind.PAUSED, fence=MAX_OFFSET)
    for way in (enter, enter_once):
        with pytest.raises(DamagedObject, match=r"ledger/00000000000000000002.json is by lock"):
            way(store, declared.uid, lambda _: ProposedEntry(kind=DeclaredEntryKind.STOPPED, number=1), by=MINE)  # type: ignore[arg-type]


def test_who_asks_once_leaves_to_the_next_look_what_does_not_fit_any_more() -> None:
    store, declared = started_where_others_take_the_lock_over_and_stop()
    seq = declared.history.seq
    assert enter_once(store, declared.uid, pause, by=MINE) is None, "the lock is another's"  # type: ignore[arg-type]
    assert enter_once(store, declared.uid, pause, by=MINE) is None, "it was stopped"  # type: ignore[arg-type]
    assert enter_once(store, declared.uid, lambda _: None, by=MINE) is None, "nothing is proposed"  # type: ignore[arg-type]
    assert declared.history.seq == seq + 1


def test_who_asks_once_is_not_asked_again_behind_another_entry() -> None:
    store = StoppingStore()
    declared = Declared(store)  # type: ignore[arg-type]
    declared.start()
    asked = list[int]()

    def propose(history: DeclaredHistory) -> ProposedEntry:
        asked.append(history.seq)
        return pause(history)

    store.meanwhile = lambda: declared.decide(DeclaredEntryKind.STOPPED)
    assert enter_once(store, declared.uid, propose, by=MINE) is None  # type: ignore[arg-type]
    assert (len(asked), declared.history.seq) == (1, asked[0] + 1)


@pytest.mark.parametrize("way", [enter, enter_once])
def test_nobody_enters_anything_while_another_operator_holds_the_lock(way: Callable[..., object]) -> None:
    store = MemoryStore()
    declared = Declared(store)  # type: ignore[arg-type]
    declared.start()
    seq = declared.history.seq
    with declared.layout.lock(store).held(OTHER), pytest.raises(LeaseHeld):  # type: ignore[arg-type]
        way(store, declared.uid, pause, by=MINE)
    assert declared.history.seq == seq


def test_an_entry_is_by_the_lock_and_the_generation_that_it_was_proposed_with() -> None:
    store = MemoryStore()
    declared = Declared(store)  # type: ignore[arg-type]
    declared.start()
    before = declared.history
    proposed = ProposedEntry(kind=DeclaredEntryKind.PAUSED, number=1, generation=before.generation + 7)
    after = enter_once(store, declared.uid, lambda _: proposed, by=MINE)  # type: ignore[arg-type]
    assert after == declared.history
    assert (after.generation, after.fence) == (before.generation + 7, declared.layout.lock(store).newest_term())  # type: ignore[arg-type]
