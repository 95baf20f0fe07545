"""Segments are dealt out to workers: small ones together, each once, in their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.model.units import MIB
from offsite.repository.segments.segment import Segment
from offsite.upkeep.verification.segments import SHARE_BYTES_MAX, SHARE_SEGMENTS_MAX, make_shares
from tests.unit.upkeep.test_roll_up import segment

SIZES = st.lists(st.integers(1, 200 * MIB), max_size=60)


def of(sizes: list[int]) -> list[Segment]:
    return [segment(10 * n, raw_bytes=size) for n, size in enumerate(sizes)]


@given(SIZES, st.integers(1, 32))
def test_each_segment_is_read_once_and_in_order(sizes: list[int], slots: int) -> None:
    segments = of(sizes)
    assert [each for share in make_shares(segments, slots=slots) for each in share.segments] == segments


@pytest.mark.slow
def test_many_small_ones_are_few_tasks() -> None:
    assert len(make_shares(of([1000] * 100_000), slots=4)) == 100_000 // SHARE_SEGMENTS_MAX


def test_large_ones_are_tasks_of_their_own() -> None:
    assert len(make_shares(of([SHARE_BYTES_MAX] * 5), slots=1)) == 5


def test_few_are_spread_over_all_slots() -> None:
    assert [len(each.segments) for each in make_shares(of([1000] * 4), slots=4)] == [1, 1, 1, 1]
