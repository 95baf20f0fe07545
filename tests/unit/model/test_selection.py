from __future__ import annotations

import pytest

from offsite.model.errors import BadName, BadOption
from offsite.model.selection import is_drill_copy, parse_groups, parse_selection

TOPICS = ("orders", "orders-eu", "orders-us", "payments", "__consumer_offsets", "_schemas")
INTERNAL = frozenset({"__consumer_offsets"})


def test_literals_globs_and_regular_expressions_are_united() -> None:
    selection = parse_selection(["payments", "orders-*", "regex:^_sch"])
    assert selection.select(TOPICS, internal=INTERNAL) == ("_schemas", "orders-eu", "orders-us", "payments")


def test_excludes_win() -> None:
    selection = parse_selection(["orders*"], ["*-us"])
    assert selection.select(TOPICS) == ("orders", "orders-eu")


def test_internal_topics_are_left_out_unless_asked_for() -> None:
    assert "__consumer_offsets" not in parse_selection(["*"]).select(TOPICS, internal=INTERNAL)
    assert "__consumer_offsets" in parse_selection(["*"], internal=True).select(TOPICS, internal=INTERNAL)


def test_a_literal_name_asks_for_an_internal_topic() -> None:
    assert parse_selection(["__consumer_offsets"]).select(TOPICS, internal=INTERNAL) == ("__consumer_offsets",)


def test_a_literal_matches_only_itself() -> None:
    assert parse_selection(["orders"]).select(TOPICS) == ("orders",)


def test_a_name_or_glob_means_the_whole_of_a_name() -> None:
    names = ["my-orders", "orders", "orders-2"]
    assert parse_selection(["orders"]).select(names) == ("orders",)
    assert parse_selection(["ord*s"]).select(names) == ("orders",)
    assert parse_selection(["*"], ["orders"]).select(names) == ("my-orders", "orders-2")
    assert parse_selection(["regex:orders$"]).select(names) == ("my-orders", "orders")
    assert parse_groups(["g"]).select(["billing", "g"]) == ("g",)


def test_missing_names_only_literals() -> None:
    assert parse_selection(["gone", "none-*", "orders"]).missing(TOPICS) == ("gone",)


@pytest.mark.parametrize("patterns", [[], [""], ["", " "]])
def test_an_empty_selection_is_refused(patterns: list[str]) -> None:
    with pytest.raises(BadOption):
        parse_selection(patterns)


@pytest.mark.parametrize("pattern", ["orders-{eu,us}-*", "orders *", "[a", "a/*", "{a*}", "[a]]", r"a\*"])
def test_a_glob_that_no_topic_can_have_is_refused(pattern: str) -> None:
    """As one for a shell with braces: beside other patterns nobody would see that its topics are left out."""
    with pytest.raises(BadOption, match="matches no possible topic name"):
        parse_selection(["*", pattern])
    with pytest.raises(BadOption, match="matches no possible topic name"):
        parse_selection(["*"], [pattern])


@pytest.mark.parametrize("pattern", ["[a-c]*", "[!a-c]*", "[]a]*", "*[^].-]", "a?.b_c-*", "**"])
def test_a_glob_that_a_topic_can_have_is_taken(pattern: str) -> None:
    assert parse_selection([pattern]).include == (pattern,)


def test_an_empty_regular_expression_is_refused() -> None:
    """It is what a shell makes of a variable that is not set, and would mean every topic."""
    for include, exclude in ((["regex:"], []), (["a", " regex: "], []), (["a"], ["regex:"])):
        with pytest.raises(BadOption, match="'regex:' is an empty regular expression"):
            parse_selection(include, exclude)


def test_a_broken_regular_expression_is_refused() -> None:
    with pytest.raises(BadOption):
        parse_selection(["regex:("])


@pytest.mark.parametrize("name", ["a/b", "..", "a b", "x" * 250])
def test_an_impossible_topic_name_is_refused(name: str) -> None:
    with pytest.raises(BadName):
        parse_selection([name])


@pytest.mark.parametrize("pattern", ["*", "offsite-*", "offsite-drill-*", "regex:^offsite-drill-", "regex:orders"])
def test_no_pattern_means_what_is_hidden_and_a_full_name_does(pattern: str) -> None:
    copy = "offsite-drill-f1cd240d-orders"
    topics = {"orders", copy, "offsite-drills"}
    for internal in (False, True):
        chosen = parse_selection([pattern], internal=internal)
        assert copy not in chosen.select(topics, hidden=frozenset({copy}))
    assert copy in parse_selection([pattern, copy]).select(topics, hidden=frozenset({copy}))


def test_a_copy_that_a_drill_made_is_known_by_the_whole_of_its_name() -> None:
    assert is_drill_copy("offsite-drill-f1cd240d-orders")
    for other in ("offsite-drill-exercises", "offsite-drill-f1cd240d", "offsite-drill-F1CD240D-orders", "orders"):
        assert not is_drill_copy(other)
