from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.model.errors import BadName, BadOption
from offsite.model.selection import (
    GroupPatterns,
    escape_pattern,
    join_patterns,
    parse_groups,
    parse_selection,
    split_all,
    split_patterns,
    stored_patterns,
)
from offsite.model.topic_choices import parse_incarnations, parse_partition_counts, parse_renames

ODD = st.text(alphabet="a1,\\()[]{}^! ", min_size=1, max_size=12).map(str.strip).filter(bool)


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("orders,payments-*", ["orders", "payments-*"]),
        (" a , b,,", ["a", "b"]),
        (",", []),
        ("", []),
        ("regex:^rx-[0-9]{1,3}$", ["regex:^rx-[0-9]{1,3}$"]),
        (r"regex:^rx-[0-9]{1\,3}$", ["regex:^rx-[0-9]{1,3}$"]),
        ("regex:^(rx-1,|rx-22)$,b", ["regex:^(rx-1,|rx-22)$", "b"]),
        ("rx-1,regex:^rx-2+$", ["rx-1", "regex:^rx-2+$"]),
        ("orders-[a,b],c", ["orders-[a,b]", "c"]),
        ("regex:^([a,b]{1,3},(x,y))$,c", ["regex:^([a,b]{1,3},(x,y))$", "c"]),
        ("[],a],b", ["[],a]", "b"]),
        ("[^],],b", ["[^],]", "b"]),
        ("regex:[(],b", ["regex:[(]", "b"]),
        (r"regex:\(a,b", [r"regex:\(a", "b"]),
        (r"a\,b,c", ["a,b", "c"]),
        ("g(1,h", ["g(1", "h"]),
        ("g[1,h{2,i", ["g[1", "h{2", "i"]),
        ("x),y", ["x)", "y"]),
        (r"regex:^(rx-[0-9]{1,4})$=\1-back,a=b", [r"regex:^(rx-[0-9]{1,4})$=\1-back", "a=b"]),
    ],
)
def test_a_comma_separates_but_not_inside_brackets(text: str, patterns: list[str]) -> None:
    assert split_patterns(text) == patterns


@given(ODD)
def test_whatever_a_pattern_is_a_command_line_holds_it(pattern: str) -> None:
    assert split_patterns(escape_pattern(pattern)) == [pattern]


def test_patterns_in_one_text_are_the_same_again() -> None:
    patterns = ["a,b", "regex:^x{1,3}$", "orders-[a,b]", r"regex:^(\,|y)$"]

    assert split_patterns(join_patterns(patterns)) == patterns
    assert str(GroupPatterns(include=("a", "b*"))) == "a,b*", "as it was noted so far"


def test_an_option_of_nothing_does_not_mean_all() -> None:
    assert split_all(None) is None
    assert split_all(["", " , ", "a,b"]) == ["", "", "a", "b"]
    with pytest.raises(BadOption, match="no topics selected"):
        parse_selection(split_all([" , "]) or ["*"])


def test_what_is_not_closed_is_read_in_time() -> None:
    assert split_patterns("[" * 20_000 + "," + "(" * 20_000 + ",{") == ["[" * 20_000, "(" * 20_000, "{"]


def test_an_element_of_a_list_is_one_pattern() -> None:
    assert parse_selection(["regex:^rx-[0-9]{1,3}$"], ["orders-[a,b]"]).include == ("regex:^rx-[0-9]{1,3}$",)
    assert parse_selection(["regex:^rx-[0-9]{1,3}$"]).select(["rx-1", "rx-22", "rx-4444"]) == ("rx-1", "rx-22")
    assert parse_groups(["a,b"]).select(["a", "a,b", "b"]) == ("a,b",)
    renames = parse_renames([r"regex:^(rx-[0-9]{1,3})$=\1-back"])
    assert [renames.target_name(topic) for topic in ("rx-22", "rx-4444")] == ["rx-22-back", "rx-4444"]


@pytest.mark.parametrize("pattern", ["orders,payments", "orders-*,x", "regex:^orders,payments"])
def test_several_in_one_element_are_refused_and_never_guessed(pattern: str) -> None:
    with pytest.raises(BadOption, match="topic names have no commas") as caught:
        parse_selection([pattern])

    assert caught.value.hint == "give each pattern as a separate element"


def test_several_choices_in_one_element_are_refused() -> None:
    with pytest.raises((BadOption, BadName)):
        parse_renames(["a=b,c=d"])
    with pytest.raises((BadOption, BadName)):
        parse_incarnations(["a=1,b=2"])
    with pytest.raises((BadOption, BadName)):
        parse_partition_counts(["a=1,b=2"])


def test_what_an_earlier_version_stored_means_what_it_meant() -> None:
    assert stored_patterns(["orders,payments-*", "regex:^x,y", "z"]) == ["orders", "payments-*", "regex:^x", "y", "z"]
    assert stored_patterns([r"regex:^a{1,3}\,$", "b"]) == [r"regex:^a{1,3}\,$", "b"]


def test_what_is_refused_today_means_what_it_did_where_it_was_stored() -> None:
    selection = parse_selection(stored_patterns(["a-{eu}-*", "b*"]), stored_patterns(["a {*"]))
    assert selection.select(["a-eu-1", "b1", "c"]) == ("b1",)
    assert parse_selection(stored_patterns(["regex:"])).select(["a", "b"]) == ("a", "b")
