"""Names in one line of text, and numbers with their nouns."""

from __future__ import annotations

import pytest

from offsite.model.names import amount, named


@pytest.mark.parametrize(
    ("count", "of", "expected"),
    [
        (0, "", ""),
        (2, "", "a, b"),
        (3, "", "a, b and 1 more"),
        (3, "partitions", "a, b and 1 more partition"),
        (4, "partitions", "a, b and 2 more partitions"),
    ],
)
def test_the_first_are_named_and_the_rest_counted(count: int, of: str, expected: str) -> None:
    assert named("abcd"[:count], most=2, of=of) == expected


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "0 groups are"), (1, "1 group is"), (2, "2 groups are"), (1200, "1,200 groups are")]
)
def test_a_number_agrees_with_its_noun_and_verb(number: int, expected: str) -> None:
    assert amount(number, "group is", "groups are") == expected
    assert amount(number, "group") == expected.removesuffix(" is").removesuffix(" are")
