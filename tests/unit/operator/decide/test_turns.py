"""Whose turn it is: nobody waits for all that another one has."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from offsite.operator.decide.queue import Shares, Turns, WaitingList

OWNERS = st.sampled_from("abcd")


def owner_of(item: str) -> str:
    return item[0]


def test_one_of_each_comes_after_the_other_and_those_of_one_in_their_order() -> None:
    assert Turns().ordered(("a1", "a2", "a3", "b1", "c1", "b2"), owner_of) == ("a1", "b1", "c1", "a2", "b2", "a3")


def test_who_was_served_last_comes_last() -> None:
    turns = Turns().after("a").after("b")
    assert turns.ordered(("a1", "b1", "c1"), owner_of) == ("c1", "a1", "b1")
    assert turns.after("a").ordered(("a1", "b1"), owner_of) == ("b1", "a1")


@given(st.lists(st.tuples(OWNERS, st.integers(0, 9)), max_size=30), st.lists(OWNERS))
def test_nothing_is_lost_and_nobody_is_passed_over_for_more_than_one_of_each_other(
    pairs: list[tuple[str, int]], served: list[str]
) -> None:
    items, turns = [f"{owner}{number}" for owner, number in pairs], Turns()
    for owner in served:
        turns = turns.after(owner)
    ordered = turns.ordered(items, owner_of)
    assert sorted(ordered) == sorted(items)
    owners = {each[0] for each in items}
    assert {each[0] for each in ordered[: len(owners)]} == owners


def test_who_was_refused_comes_before_who_was_served_since() -> None:
    wishes = WaitingList().add("b", now_s=0)
    assert wishes.is_turn("a", now_s=1), "neither was served yet"
    wishes = wishes.serve("a", now_s=1)
    assert not wishes.is_turn("a", now_s=2), "b has waited since"
    assert wishes.is_turn("b", now_s=2)
    assert wishes.serve("b", now_s=2).is_turn("a", now_s=3)


def test_who_asks_no_more_is_waited_for_a_minute() -> None:
    wishes = WaitingList().add("b", now_s=0).serve("a", now_s=1)
    assert not wishes.is_turn("a", now_s=59)
    assert wishes.is_turn("a", now_s=60)
    assert not wishes.add("b", now_s=50).is_turn("a", now_s=60)


@given(st.lists(OWNERS, min_size=1), st.integers(1, 4))
def test_who_keeps_asking_is_served_before_anybody_is_served_twice(asking: list[str], jobs_s: int) -> None:
    """`z` asks in each round behind all others, and what is begun takes a while."""
    wishes, begun, free_s = WaitingList(), list[str](), 0
    for now_s in range(40):
        for owner in (*asking, "z"):
            if now_s >= free_s and wishes.is_turn(owner, now_s=now_s):
                wishes, free_s = wishes.serve(owner, now_s=now_s), now_s + jobs_s
                begun.append(owner)
            else:
                wishes = wishes.add(owner, now_s=now_s)
    first = begun.index("z")
    assert len(set(begun[:first])) == first, begun


def test_who_takes_long_comes_less_often() -> None:
    shares, looks = Shares(), Counter[str]()
    for _ in range(1000):
        owner = shares.least({"slow": 1, "quick": 1})
        looks[owner] += 1
        shares = shares.after(owner, 60.0 if owner == "slow" else 0.1)
    assert looks["slow"] <= 2


def test_who_was_alone_owes_nothing_and_who_was_away_has_saved_nothing() -> None:
    shares = Shares().after("alone", 600.0).among({"alone"})
    assert shares.least({"alone": 1, "new": 1}) == "alone"

    shares = shares.after("alone", 5.0).among({"alone", "new"})
    assert shares.least({"alone": 1, "new": 1}) == "new"
    shares = shares.after("new", 6.0)
    assert shares.least({"alone": 1, "new": 1}) == "alone"
