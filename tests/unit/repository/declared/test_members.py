"""The resources that share one declared backup, as their ledger has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from offsite.model.errors import DamagedObject
from offsite.repository.declared.entry import Entry, Kind, Membership, NotAllowedError, decode_entry, encode_entry
from offsite.repository.declared.history import History, after
from offsite.repository.declared.members import in_force, member_id, member_of
from tests.source_events.memory_store import MemoryStore
from tests.unit.operator.work.declared import Declared

LEDGER = "shop-everywhere"
ONE, TWO = "11111111-aaaa", "22222222-bbbb"


@pytest.fixture
def declared() -> Declared:
    return Declared(MemoryStore(), uid=LEDGER)  # type: ignore[arg-type]


def word(uid: str, *, generation: int = 1, **fields: str) -> Membership:
    return Membership(
        id=member_id(LEDGER, uid), name=f"shops/{uid[:1]}", generation=generation, fields=tuple(fields.items())
    )


def say(declared: Declared, kind: Kind, uid: str, **more: Any) -> None:
    declared.decide(kind, generation=declared.history.generation + 1, member=word(uid, **more), by="operator")


def counts(declared: Declared) -> str:
    found = in_force(declared.history.members)
    return found.name if found is not None else ""


def test_who_joins_first_counts_and_then_who_changed_something_last(declared: Declared) -> None:
    assert counts(declared) == ""
    say(declared, Kind.JOINED, ONE, state="a")
    say(declared, Kind.JOINED, TWO, state="b")
    assert counts(declared) == "shops/1"
    say(declared, Kind.DECLARED, TWO, generation=2, state="c")
    assert counts(declared) == "shops/2"
    say(declared, Kind.DECLARED, ONE, generation=2, state="d")
    assert counts(declared) == "shops/1"
    assert member_of(declared.history.members, member_id(LEDGER, TWO)).fields == (("state", "c"),)  # type: ignore[union-attr]


def test_who_let_go_counts_no_more_and_never_joins_again(declared: Declared) -> None:
    say(declared, Kind.JOINED, ONE)
    say(declared, Kind.JOINED, TWO)
    declared.decide(Kind.LEFT, member=Membership(id=member_id(LEDGER, ONE), proof=ONE))
    assert counts(declared) == "shops/2"
    assert [member.is_gone for member in declared.history.members] == [True, False]
    for kind in (Kind.JOINED, Kind.DECLARED, Kind.LEFT):
        with pytest.raises(NotAllowedError):
            say(declared, kind, ONE, generation=9)


@pytest.mark.parametrize("proof", ["", TWO, "guessed"])
def test_without_its_uid_nobody_says_that_a_resource_let_go(declared: Declared, proof: str) -> None:
    say(declared, Kind.JOINED, ONE)
    declared.decide(Kind.LEFT, member=Membership(id=member_id(LEDGER, ONE), proof=proof, reason="I say so"), by="who")
    (member,) = declared.history.members
    assert not member.is_gone
    assert member.dismissed is not None
    assert (member.dismissed.by, member.reason) == ("who", "I say so")

    say(declared, Kind.JOINED, ONE)  # it is there still
    (member,) = declared.history.members
    assert member.dismissed is None
    declared.decide(Kind.LEFT, member=Membership(id=member_id(LEDGER, ONE), proof=ONE))
    assert declared.history.members[0].is_gone


def test_an_older_spec_of_a_resource_is_refused(declared: Declared) -> None:
    say(declared, Kind.JOINED, ONE, generation=3, state="a")
    for generation in (2, 3):
        with pytest.raises(NotAllowedError):
            say(declared, Kind.DECLARED, ONE, generation=generation, state="b")


def test_who_never_joined_declares_nothing(declared: Declared) -> None:
    say(declared, Kind.JOINED, ONE)
    for kind in (Kind.DECLARED, Kind.LEFT):
        with pytest.raises(NotAllowedError):
            say(declared, kind, TWO, generation=2)


def test_nobody_joins_the_ledger_of_a_resource_that_shares_it_with_nobody(declared: Declared) -> None:
    declared.start()
    with pytest.raises(NotAllowedError):
        say(declared, Kind.JOINED, ONE)


def test_what_was_decided_before_somebody_spoke_is_refused_behind_it(declared: Declared) -> None:
    say(declared, Kind.JOINED, ONE)
    declared.start()
    before = declared.history.generation
    say(declared, Kind.JOINED, TWO)
    now = declared.history
    stale = Entry(
        seq=now.seq + 1,
        previous=now.head,
        kind=Kind.STOPPED,
        generation=before,
        fence=now.fence,
        word="w",
        at_ms=1,
        number=1,
    )
    with pytest.raises(NotAllowedError):
        after(now, stale, head="h")
    assert after(now, replace(stale, generation=now.generation), head="h").live is None


def test_an_entry_of_a_member_is_read_as_it_was_written_and_others_hold_nothing_of_it() -> None:
    entry = Entry(
        seq=1,
        previous="",
        kind=Kind.JOINED,
        generation=1,
        fence=1,
        word="w",
        at_ms=1,
        number=0,
        member=Membership(id="i", name="n", generation=3, fields=(("tag", "t"),), proof="p", reason="r"),
    )
    assert decode_entry(encode_entry(entry), key="k") == entry
    assert b"member" not in encode_entry(replace(entry, member=None))
    with pytest.raises(NotAllowedError):
        after(History(uid=LEDGER), replace(entry, member=None), head="h")
    with pytest.raises(DamagedObject):
        decode_entry(encode_entry(entry).replace(b'"generation":3', b'"generation":-3'), key="k")
