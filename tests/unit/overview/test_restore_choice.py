"""What is chosen by pointing becomes the options of a restore, and options become a choice."""

from __future__ import annotations

from typing import Any

import pytest

from offsite.model.errors import BadName, BadOption
from offsite.overview.comparison import SourceComparison, TopicComparison, TopicState
from offsite.overview.restore_choice import RestoreChoice, choice_words, proposed_name, read_choice, taken_names
from offsite.serve.v1.requests import check_bounded

TOPICS = ("orders", "payments", "payouts")
NOBODY = frozenset[str]()


def read(taken: frozenset[str] = NOBODY, **fields: str) -> RestoreChoice:
    return read_choice(fields, TOPICS, taken, check_bounded=check_bounded)


def words(taken: frozenset[str] = NOBODY, **fields: str) -> dict[str, Any]:
    return choice_words(read(taken, **fields), TOPICS, taken)


@pytest.mark.parametrize(
    ("fields", "meant"),
    [
        ({}, {}),
        ({"topics": "orders", "commit": "5", "groups": "all"}, {"topics": ["orders"], "commit": 5, "groups": ["all"]}),
        ({"topics": "pay*,orders"}, {"topics": ["pay*", "orders"]}),
        ({"topics": "none"}, {"topics": ["none"]}),
        (
            {"rename": "*=r-*", "checkpoint": "7", "at": "2h-ago"},
            {"rename": ["*=r-*"], "checkpoint": 7, "at": "2h-ago"},
        ),
    ],
)
def test_options_stay_as_they_are_written(fields: dict[str, str], meant: dict[str, Any]) -> None:
    assert words(**fields) == meant


def test_a_tick_beside_a_link_replaces_its_patterns() -> None:
    link = read(topics="pay*")
    again = {"topics": link.topics, "topics_before": link.topics, "which": "some", "which_before": "some"}
    listed = {f"as.{topic}": topic for topic in TOPICS}
    whole = read(**again, **listed, **{"pick.payments": "on", "pick.payouts": "on"})
    assert choice_words(whole, TOPICS, NOBODY) == {"topics": ["pay*"]}
    part = read(**again, **listed, **{"pick.payments": "on"})
    assert choice_words(part, TOPICS, NOBODY) == {"topics": ["payments"]}


def test_what_is_ticked_on_other_pages_is_kept() -> None:
    choice = read(picked="orders,payouts,nothing", which="some", which_before="some", **{"as.payouts": "payouts"})
    assert choice.picked == {"orders"}, "payouts was listed, and is no longer ticked"


def test_a_first_tick_means_only_the_ticked_and_all_means_all_again() -> None:
    ticked = {"as.orders": "orders", "pick.orders": "on"}
    assert not read(which="all", which_before="all", **ticked).is_all
    assert read(which="all", which_before="some", **ticked).is_all
    assert read(which="all", which_before="all").is_all


def test_nothing_ticked_is_not_all() -> None:
    with pytest.raises(BadOption, match="no topic is ticked"):
        words(which="some", which_before="some")


def test_names_are_proposed_beside_those_that_are_taken() -> None:
    taken = frozenset({"orders", "orders-restored"})
    assert (proposed_name("orders", taken), proposed_name("payments", taken)) == ("orders-restored-2", "payments")
    assert len(proposed_name("o" * 249, frozenset({"o" * 249}))) <= 249
    assert words(frozenset({"orders"}), topics="orders,payments")["rename"] == ["orders=orders-restored"]
    assert words(frozenset(TOPICS))["rename"] == ["*=*-restored"]


def test_an_edited_name_counts_and_a_rule_for_the_rest() -> None:
    edited = {"as.orders": "mine", "as.payments": "payments"}
    assert words(topics="orders,payments", **edited)["rename"] == ["orders=mine"]
    kept = words(topics="orders,payments", named="orders=mine,gone=x")
    assert kept["rename"] == ["orders=mine"]
    ruled = words(topics="orders,payments", rename="orders=a", named="payments=b")
    assert ruled["rename"] == ["orders=a", "payments=b"]
    assert words(frozenset({"payments"}), topics="orders,payments", rename="orders=a")["rename"] == [
        "orders=a",
        "payments=payments-restored",
    ], "a rule about one topic proposes nothing for the other"


@pytest.mark.parametrize("name", ["a,b=c", "*", "regex:x", "a b", "../x", "n" * 250])
def test_a_name_never_becomes_a_rule(name: str) -> None:
    with pytest.raises(BadName):
        words(topics="orders", **{"as.orders": name})


@pytest.mark.parametrize("field", ["topics", "rename"])
def test_patterns_without_a_bound_are_refused_before_they_are_searched_for(field: str) -> None:
    with pytest.raises(BadOption, match="does not accept"):
        read(**{field: "regex:(a+)+$=x"})


def test_a_name_is_taken_only_where_the_source_was_seen_to_have_it() -> None:
    states = [TopicState.GONE, TopicState.HIDDEN, TopicState.CURRENT, TopicState.NEW]
    topics = tuple(TopicComparison(topic=state.value, state=state) for state in states)
    assert taken_names(SourceComparison.of(topics, 1)) == {"current", "new"}
    assert taken_names(SourceComparison()) == taken_names(None) == NOBODY
