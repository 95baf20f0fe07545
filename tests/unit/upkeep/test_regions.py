"""Which segments of a partition are compacted together, and how workers share them out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from offsite.log.range import PartitionId
from offsite.upkeep.compaction.regions import find_regions, make_parts
from tests.unit.upkeep.test_roll_up import row, segment

PARTITION = PartitionId(topic="t", topic_id="id", partition=0)


def regions(count: int, **more: object) -> list[tuple[int, int, tuple[int, ...]]]:
    found = find_regions(PARTITION, row(count), **{"point_ends": [], **more})  # type: ignore[arg-type]
    return [(region.start, region.end, region.cuts) for region in found]


def test_ends_of_points_cut_a_region_wherever_they_lie() -> None:
    assert regions(5, point_ends=[(0, 0), (20, 20), (33, 33), (50, 50)]) == [(0, 50, (20, 33))]


def test_what_lies_in_a_run_of_points_is_in_no_region() -> None:
    assert regions(6, point_ends=[(15, 31), (60, 60)]) == [(0, 10, ()), (40, 60, ())]


def test_no_region_lies_over_a_border_a_hole_or_what_must_stay() -> None:
    assert regions(6, borders=[20]) == [(0, 20, ()), (20, 60, ())]
    assert regions(6, above=15) == [(20, 60, ())]
    segments = [segment(0), segment(10, first_offset=15, end=20)]
    found = find_regions(PARTITION, segments, point_ends=[], holes=[(10, 15)])
    assert [(region.start, region.end) for region in found] == [(0, 10), (10, 20)]


def test_a_segment_of_which_a_batch_reaches_out_stays() -> None:
    segments = [segment(5, first_offset=0), segment(15), segment(25, last_offset=40), segment(35)]
    found = find_regions(PARTITION, segments, point_ends=[])
    assert [(region.start, region.end) for region in found] == [(15, 25), (35, 45)]


def test_dirty_is_what_lies_outside_of_the_largest_piece_of_each_stretch() -> None:
    for clean, dirty in (
        ([], 60),
        ([(0, 60)], 0),
        ([(0, 40), (40, 60)], 20),
        ([(0, 20), (20, 40), (40, 60)], 40),
        ([(5, 40)], 25),
    ):
        segments = row(6, raw_bytes=10)
        (region,) = find_regions(PARTITION, segments, point_ends=[], clean=clean)
        assert (clean, region.dirty_bytes) == (clean, dirty)
    (region,) = find_regions(PARTITION, row(6, raw_bytes=10), point_ends=[(40, 40)], clean=[(0, 40), (40, 60)])
    assert region.dirty_bytes == 0
    for at in (5, 25, 40, 59):  # a compaction leaves a segment over the ends of points
        (region,) = find_regions(PARTITION, row(6, raw_bytes=10), point_ends=[(at, at)], clean=[(0, at), (at, 60)])
        assert region.dirty_bytes == 0, at


@given(
    count=st.integers(1, 12),
    cuts=st.sets(st.integers(1, 119)),
    part_bytes=st.integers(1, 200),
    below=st.integers(0, 120),
)
def test_parts_share_a_region_out_and_stretches_share_out_parts(
    count: int, cuts: set[int], part_bytes: int, below: int
) -> None:
    (region,) = find_regions(PARTITION, row(count, raw_bytes=30), point_ends=[(cut, cut) for cut in cuts])
    region = replace(region, tombstones_below=below)
    parts, routes = make_parts([region, region], part_bytes=part_bytes)
    own = parts[: len(parts) // 2]
    assert [s for part in own for s in part.segments] == list(region.segments)
    assert {part.region_parts for part in own} == {(0, len(own))}
    for part in own:
        assert (part.stretches[0].start, part.stretches[-1].end) == (part.log_range.start, part.log_range.end)
        assert all(one.end == other.start for one, other in pairwise(part.stretches))
        for stretch in part.stretches:
            low, high = region.stretches[stretch.number]
            assert low <= stretch.start < stretch.end <= high == stretch.end_offset
            assert stretch.tombstones_below == (min(below, high) if stretch.number == 0 else 0)
    assert len(routes.starts) == 2 * len(region.stretches)
    assert set(routes.firsts) == {0, len(own)}
    assert routes.starts[0] == tuple(part.log_range.start for part in own)
