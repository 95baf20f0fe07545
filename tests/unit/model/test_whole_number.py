from __future__ import annotations

import pytest

from offsite.model.bounds import MAX_OFFSET, setting_number, whole_number

MANY = "9" * 5000
"""More digits than Python reads."""


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), (str(MAX_OFFSET), MAX_OFFSET), ("0" * 30 + "5", 5)])
def test_digits_are_a_number(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1.0", "1_0", " 1", "\u0663", "\u00b2", str(MAX_OFFSET + 1), MANY, "1" + "0" * 19]
)
def test_anything_else_is_none(text: str) -> None:
    assert whole_number(text) is None


def test_the_largest_may_be_smaller() -> None:
    assert (whole_number("9", most=9), whole_number("10", most=9)) == (9, None)


def test_a_setting_that_is_no_number_is_as_if_it_were_not_set() -> None:
    configs = {"a": "7", "b": "-1", "c": "abc", "d": MANY, "e": "--1"}
    assert [setting_number(configs, name, 5) for name in "abcdef"] == [7, -1, 5, 5, 5, 5]
