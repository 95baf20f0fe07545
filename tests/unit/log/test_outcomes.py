"""Outcomes kept in little memory are those of all markers, kept one by one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.log import committed_view
from offsite.log.committed_view import TransactionOutcomes
from offsite.log.markers import Marker, Markers

SPAN = 1 << 32

steps = st.lists(
    st.tuples(st.integers(0, 6), st.booleans(), st.sampled_from([1, 1, 2, 5, SPAN // 2, SPAN, 3 * SPAN])), max_size=60
)


def marker(offset: int, producer_id: int, *, committed: bool) -> Marker:
    return Marker(offset, producer_id, 0, committed, -1)


def markers_of(log: list[tuple[int, bool, int]], *, start: int = 0) -> list[Marker]:
    found, offset = [], start
    for producer_id, committed, step in log:
        offset += step
        found.append(marker(offset, producer_id, committed=committed))
    return found


def simply(markers: list[Marker], producer_id: int, offset: int, *, end_offset: int) -> bool | None:
    later = (m.committed for m in markers if m.producer_id == producer_id and offset < m.offset < end_offset)
    return next(later, None)


@given(steps, st.integers(0, 60), st.integers(1, 9))
def test_every_batch_has_the_outcome_of_its_producers_next_marker(
    log: list[tuple[int, bool, int]], cut: int, settled_at: int
) -> None:
    markers = markers_of(log)
    end_offset = markers[cut].offset if cut < len(markers) else (markers[-1].offset + 1 if markers else 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(committed_view, "_RECENT_MIN", settled_at)
        patch.setattr(committed_view, "_KNOWN_MAX", 2)
        patch.setattr(committed_view, "_BLOCK_CHANGES", 2)
        outcomes = TransactionOutcomes(end_offset=end_offset)
        outcomes.add(Markers(markers[: len(markers) // 2]))
        places = sorted({0, *(m.offset + step for m in markers for step in (-1, 1))})
        for place in places:  # what is asked before all markers are there must not be remembered wrongly
            outcomes.outcome_of(1, place)
        outcomes.add(Markers(markers[len(markers) // 2 :]))
        for place in (*places, *reversed(places)):
            for producer_id in range(8):
                expected = simply(markers, producer_id, place, end_offset=end_offset)
                if all((m.offset, m.producer_id) != (place, producer_id) for m in markers):  # no data on a marker
                    assert outcomes.outcome_of(producer_id, place) == expected


def test_what_is_aborted_again_and_again_takes_no_memory_of_its_own() -> None:
    outcomes = TransactionOutcomes(end_offset=10_000)
    outcomes.add(marker(offset, 7, committed=False) for offset in range(1, 10_000))
    assert outcomes._changes == {}
    assert [outcomes.outcome_of(7, offset) for offset in (0, 5_000, 9_998, 9_999)] == [False, False, False, None]


def test_many_producers_are_found_again() -> None:
    count = 200_000
    outcomes = TransactionOutcomes(end_offset=2 * count)
    outcomes.add(marker(offset, offset * 37 % count, committed=offset % 3 > 0) for offset in range(count))
    outcomes.add(marker(count + number, number, committed=True) for number in range(0, count, 1000))
    for before, after in pairwise(range(0, count, 999)):
        assert outcomes.outcome_of(after * 37 % count, before) == (after % 3 > 0)
    assert outcomes.outcome_of(1000, count - 1) is True
    assert outcomes.outcome_of(1001, count - 1) is None
