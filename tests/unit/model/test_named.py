"""Names in one line of text."""

from __future__ import annotations

import pytest

from offsite.model.names import named


@pytest.mark.parametrize(
    ("count", "of", "expected"),
    [(0, "", ""), (2, "", "a, b"), (3, "", "a, b and 1 more"), (4, "partitions", "a, b and 2 more partitions")],
)
def test_the_first_are_named_and_the_rest_counted(count: int, of: str, expected: str) -> None:
    assert named("abcd"[:count], most=2, of=of) == expected
