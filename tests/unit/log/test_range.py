"""What spans leave over of a range, judged offset by offset."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from offsite.log.range import uncovered

NON_EMPTY = st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda span: (span[0], sum(span)))


@given(spans=st.lists(NON_EMPTY, max_size=12).map(sorted), start=st.integers(0, 50), end=st.integers(0, 90))
def test_what_is_left_over_lies_in_no_span_and_is_not_cut_without_need(
    spans: list[tuple[int, int]], start: int, end: int
) -> None:
    left = list(uncovered(start, end, spans))
    held = {offset for low, high in spans for offset in range(low, high)}
    assert [offset for low, high in left for offset in range(low, high)] == sorted(set(range(start, end)) - held)
    assert all(high in held or high == end for _, high in left)


def test_spans_behind_the_end_are_not_looked_at() -> None:
    endless = ((low, low + 1) for low in count(0, 2))
    assert list(uncovered(0, 6, endless)) == [(1, 2), (3, 4), (5, 6)]
