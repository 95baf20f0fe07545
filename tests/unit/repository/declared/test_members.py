"""The resources that share one declared backup, as their ledger has them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import DamagedObject
from offsite.repository.declared.entry import (
    DECLARED_ENTRY,
    DeclaredEntry,
    DeclaredEntryKind,
    MemberStatement,
)
from offsite.repository.declared.history import DeclaredHistory, apply_entry
from offsite.repository.declared.members import find_member, member_id, member_in_force
from offsite.stores.numbered_log import EntryRefusedError
from tests.memory_store import MemoryStore
from tests.unit.operator.work.declared import Declared

LEDGER = "shop-everywhere"
ONE, TWO = "11111111-aaaa", "22222222-bbbb"


@pytest.fixture
def declared() -> Declared:
    return Declared(MemoryStore(), uid=LEDGER)  # type: ignore[arg-type]


def word(uid: str, *, generation: int = 1, **fields: str) -> MemberStatement:
    return MemberStatement(
        id=member_id(LEDGER, uid), name=f"shops/{uid[:1]}", generation=generation, fields=tuple(fields.items())
    )


def say(declared: Declared, kind: DeclaredEntryKind, uid: str, **more: Any) -> None:
    declared.decide(kind, generation=declared.history.generation + 1, member=word(uid, **more), by="operator")


def counts(declared: Declared) -> str:
    found = member_in_force(declared.history.members)
    return found.name if found is not None else ""


def test_who_joins_first_counts_and_then_who_changed_something_last(declared: Declared) -> None:
    assert counts(declared) == ""
    say(declared, DeclaredEntryKind.JOINED, ONE, state="a")
    say(declared, DeclaredEntryKind.JOINED, TWO, state="b")
    assert counts(declared) == "shops/1"
    say(declared, DeclaredEntryKind.DECLARED, TWO, generation=2, state="c")
    assert counts(declared) == "shops/2"
    say(declared, DeclaredEntryKind.DECLARED, ONE, generation=2, state="d")
    assert counts(declared) == "shops/1"
    assert find_member(declared.history.members, member_id(LEDGER, TWO)).fields == (("state", "c"),)  # type: ignore[union-attr]


def test_who_let_go_counts_no_more_and_never_joins_again(declared: Declared) -> None:
    say(declared, DeclaredEntryKind.JOINED, ONE)
    say(declared, DeclaredEntryKind.JOINED, TWO)
    declared.decide(DeclaredEntryKind.LEFT, member=MemberStatement(id=member_id(LEDGER, ONE), proof=ONE))
    assert counts(declared) == "shops/2"
    assert [member.is_gone for member in declared.history.members] == [True, False]
    assert declared.history.members[0].id == member_id(LEDGER, ONE), "as it is written"
    for kind in (DeclaredEntryKind.JOINED, DeclaredEntryKind.DECLARED, DeclaredEntryKind.LEFT):
        with pytest.raises(EntryRefusedError):
            say(declared, kind, ONE, generation=9)


@pytest.mark.parametrize("proof", ["", TWO, "guessed"])
def test_without_its_uid_nobody_says_that_a_resource_let_go(declared: Declared, proof: str) -> None:
    say(declared, DeclaredEntryKind.JOINED, ONE)
    declared.decide(
        DeclaredEntryKind.LEFT,
        member=MemberStatement(id=member_id(LEDGER, ONE), proof=proof, reason="I say so"),
        by="who",
    )
    (member,) = declared.history.members
    assert not member.is_gone
    assert member.dismissed is not None
    assert (member.dismissed.by, member.reason) == ("who", "I say so")

    say(declared, DeclaredEntryKind.JOINED, ONE)  # it is there still
    (member,) = declared.history.members
    assert member.dismissed is None
    declared.decide(DeclaredEntryKind.LEFT, member=MemberStatement(id=member_id(LEDGER, ONE), proof=ONE))
    assert declared.history.members[0].is_gone


def test_a_resource_says_each_of_its_specs_once(declared: Declared) -> None:
    say(declared, DeclaredEntryKind.JOINED, ONE, generation=3, state="a")
    say(declared, DeclaredEntryKind.DECLARED, ONE, generation=4, state="b")
    for generation, state in ((4, "b"), (9, "b"), (3, "a")):
        with pytest.raises(EntryRefusedError):
            say(declared, DeclaredEntryKind.DECLARED, ONE, generation=generation, state=state)
    say(declared, DeclaredEntryKind.DECLARED, ONE, generation=5, state="a")


def test_a_resource_that_was_brought_back_as_it_was_is_heard_once_it_is_changed(declared: Declared) -> None:
    """Its generation begins again lower. Nothing is changed in it by that alone, and the one of after it says no more
    what it said: two that take themselves for it do not undo each other's words for ever."""
    say(declared, DeclaredEntryKind.JOINED, ONE, generation=2, state="a", tag="t")
    say(declared, DeclaredEntryKind.DECLARED, ONE, generation=7, state="b", tag="t")
    (mine,) = declared.history.members
    assert not mine.is_news(2, (("state", "a"), ("tag", "t")))
    assert not mine.is_news(3, (("state", "a"), ("tag", "t"))), "what it said up to there"
    say(declared, DeclaredEntryKind.DECLARED, ONE, generation=3, state="a", tag="new")
    (mine,) = declared.history.members
    assert dict(mine.fields) == {"state": "a", "tag": "new"}
    assert not mine.is_news(7, (("state", "b"), ("tag", "t")))
    assert mine.is_news(7, (("state", "c"), ("tag", "t")))


def test_a_word_in_the_name_of_a_resource_silences_it_no_longer_than_until_its_next_change(declared: Declared) -> None:
    say(declared, DeclaredEntryKind.JOINED, ONE, generation=1, state="a")
    say(declared, DeclaredEntryKind.DECLARED, ONE, generation=MAX_OFFSET, state="made up")
    say(declared, DeclaredEntryKind.DECLARED, ONE, generation=2, state="b")
    assert dict(declared.history.members[0].fields) == {"state": "b"}


def test_nobody_lets_the_number_of_words_jump(declared: Declared) -> None:
    """Behind the largest number no word could be read any more."""
    say(declared, DeclaredEntryKind.JOINED, ONE)
    for kind, parts in ((DeclaredEntryKind.JOINED, {"member": word(TWO)}), (DeclaredEntryKind.PAUSED, {})):
        with pytest.raises(EntryRefusedError):
            declared.decide(kind, generation=MAX_OFFSET, **parts)
    say(declared, DeclaredEntryKind.JOINED, TWO)


@pytest.mark.parametrize("strange", ["", "0123", "\x1b[2J", "A" * 32, "x" * 5000])
def test_whatever_id_a_stranger_chose_a_person_can_type(declared: Declared, strange: str) -> None:
    declared.decide(
        DeclaredEntryKind.JOINED, member=MemberStatement(id=strange, name="\x1b[2Jshops/1"), by="\x1b[2J" + "b" * 5000
    )
    (member,) = declared.history.members
    assert re.fullmatch("[0-9a-f]{32}", member.id)
    assert str(member).isprintable()
    assert len(str(member)) < 500
    assert member.id[:8] in str(member)


def test_who_never_joined_declares_nothing(declared: Declared) -> None:
    say(declared, DeclaredEntryKind.JOINED, ONE)
    for kind in (DeclaredEntryKind.DECLARED, DeclaredEntryKind.LEFT):
        with pytest.raises(EntryRefusedError):
            say(declared, kind, TWO, generation=2)


def test_nobody_joins_the_ledger_of_a_resource_that_shares_it_with_nobody(declared: Declared) -> None:
    declared.start()
    with pytest.raises(EntryRefusedError):
        say(declared, DeclaredEntryKind.JOINED, ONE)


def test_what_was_decided_before_somebody_spoke_is_refused_behind_it(declared: Declared) -> None:
    say(declared, DeclaredEntryKind.JOINED, ONE)
    declared.start()
    before = declared.history.generation
    say(declared, DeclaredEntryKind.JOINED, TWO)
    now = declared.history
    stale = DeclaredEntry(
        seq=now.seq + 1,
        previous=now.head,
        kind=DeclaredEntryKind.STOPPED,
        generation=before,
        fence=now.fence,
        word="w",
        at_ms=1,
        number=1,
    )
    with pytest.raises(EntryRefusedError):
        apply_entry(now, stale, head="h")
    assert apply_entry(now, replace(stale, generation=now.generation), head="h").live is None


def test_an_entry_of_a_member_is_read_as_it_was_written_and_others_hold_nothing_of_it() -> None:
    entry = DeclaredEntry(
        seq=1,
        previous="",
        kind=DeclaredEntryKind.JOINED,
        generation=1,
        fence=1,
        word="w",
        at_ms=1,
        number=0,
        member=MemberStatement(id="0" * 32, name="n", generation=3, fields=(("tag", "t"),), proof="p", reason="r"),
    )
    assert DECLARED_ENTRY.decode(DECLARED_ENTRY.encode(entry), key="k") == entry
    assert b"member" not in DECLARED_ENTRY.encode(replace(entry, member=None))
    with pytest.raises(EntryRefusedError):
        apply_entry(DeclaredHistory(uid=LEDGER), replace(entry, member=None), head="h")
    with pytest.raises(DamagedObject):
        DECLARED_ENTRY.decode(DECLARED_ENTRY.encode(entry).replace(b'"generation":3', b'"generation":-3'), key="k")
