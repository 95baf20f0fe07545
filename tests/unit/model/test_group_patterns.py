from __future__ import annotations

import pytest

from offsite.model.errors import BadOption
from offsite.model.selection import ALL_GROUPS, NO_GROUPS, parse_groups, split_all

GROUPS = ["billing", "bill-*", "ship: 1", "ünlike", ""]


def test_all_and_none_are_words_and_nothing_typed_is_all() -> None:
    assert parse_groups([]) == parse_groups(["all"]) == ALL_GROUPS
    assert parse_groups(["none"]) == NO_GROUPS
    assert ALL_GROUPS.select(GROUPS) == tuple(sorted(GROUPS))
    assert not NO_GROUPS
    assert NO_GROUPS.select(GROUPS) == ()


def test_names_globs_and_expressions_choose_groups_of_any_name() -> None:
    assert parse_groups(["ship: 1", "ü*"]).select(GROUPS) == ("ship: 1", "ünlike")
    assert parse_groups(["regex:^bill"]).select(GROUPS) == ("bill-*", "billing")
    assert parse_groups(["nobody", "bill*"]).missing(GROUPS) == ("nobody",)


@pytest.mark.parametrize("typed", ["", " ", ",", " , "])
def test_what_a_variable_that_is_not_set_leaves_is_not_all_groups(typed: str) -> None:
    with pytest.raises(BadOption, match="no groups selected"):
        parse_groups(split_all([typed]) or ())


def test_an_empty_expression_is_refused_and_means_no_group() -> None:
    with pytest.raises(BadOption, match="'regex:' is an empty regular expression"):
        parse_groups(["readers", "regex: "])


def test_an_expression_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(BadOption, match="cannot be read"):
        parse_groups(["regex:("])
