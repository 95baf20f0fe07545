from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from offsite.kafka.protocol.metadata import split_requests

MOST = 10


@given(st.lists(st.integers(0, 15)))
def test_portions_hold_everything_in_order_and_are_no_larger_than_they_must_be(sizes: list[int]) -> None:
    parts = list(split_requests(sizes, lambda size: size, most=MOST))
    assert [size for part in parts for size in part] == sizes
    assert all(part and (sum(part) <= MOST or len(part) == 1) for part in parts)
    assert all(sum(part) + after[0] > MOST for part, after in pairwise(parts))
