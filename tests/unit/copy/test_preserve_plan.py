from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.copy.restore.plan import PartitionRestore
from offsite.copy.restore.preserve.plan import (
    MARKER_GAPS_MAX,
    TOMBSTONES_FROM,
    Filler,
    OffsetsVerdict,
    PreservedPartition,
    obstacle,
    preserved_partition,
)
from offsite.log.range import TopicPartition
from offsite.repository.segments.segment import Segment
from tests.unit.copy.test_restore_plan import partition, segment, target

SOURCE = partition("t", 0)


def chain(*segments: Segment, end: int) -> PartitionRestore:
    return PartitionRestore(
        source=SOURCE, target=TopicPartition(topic="t", partition=0), segments=tuple(segments), end=end
    )


def planned(*segments: Segment, end: int, tombstones: bool = False, target_end: int = 0) -> PreservedPartition:
    return preserved_partition(chain(*segments, end=end), tombstones=tombstones, target_end=target_end)


def verdict(*partitions: PreservedPartition) -> OffsetsVerdict:
    return OffsetsVerdict(source="t", target="t", preserve=True, reason="", partitions=partitions)


def test_a_log_from_zero_without_gaps_costs_nothing() -> None:
    plan = planned(segment(SOURCE, 0, 60), segment(SOURCE, 60, 100), end=100)
    assert (plan.head_offsets, plan.gap_offsets, plan.outcomes, plan.extra_s) == (0, 0, 0, 0.0)


def test_the_head_is_what_lies_between_the_targets_end_and_the_first_batch() -> None:
    inside_a_batch = replace(segment(SOURCE, 1037, 1500), first_offset=1000)
    assert planned(inside_a_batch, end=1500).head_offsets == 1000
    assert planned(inside_a_batch, end=1500, target_end=900).head_offsets == 100


def test_an_emptied_log_is_all_head() -> None:
    plan = planned(end=700)
    assert (plan.head_offsets, plan.gap_offsets) == (700, 0)


def test_gaps_are_offsets_that_neither_records_nor_outcomes_account_for() -> None:
    cleaned = replace(segment(SOURCE, 0, 100), records=40, control_batches=10)
    plan = planned(cleaned, segment(SOURCE, 150, 200), end=200)
    assert (plan.gap_offsets, plan.outcomes) == (100, 10)


@pytest.mark.parametrize(("tombstones", "filler"), [(True, Filler.TOMBSTONES), (False, Filler.MARKERS)])
def test_tombstones_fill_many_gaps_where_they_may(filler: Filler, *, tombstones: bool) -> None:
    end = TOMBSTONES_FROM + 101
    assert planned(segment(SOURCE, end - 100, end), end=end, tombstones=tombstones).filler is Filler.MARKERS
    cleaned = replace(segment(SOURCE, 0, end), records=100)
    assert planned(cleaned, end=end, tombstones=tombstones).filler is filler


def test_gaps_too_large_for_markers_are_an_obstacle_and_for_tombstones_they_are_not() -> None:
    cleaned = replace(segment(SOURCE, 0, MARKER_GAPS_MAX + 2), records=1)
    markers, tombstones = (planned(cleaned, end=cleaned.end, tombstones=allowed) for allowed in (False, True))
    assert obstacle([markers], None) == "partition 0 has 20,001 offsets without records, too many to fill"
    assert obstacle([tombstones], None) == ""


def test_a_target_that_ends_beyond_the_sources_start_is_an_obstacle() -> None:
    plan = planned(segment(SOURCE, 5, 100), end=100)
    assert obstacle([plan], replace(target(), ends=(5, 0))) == ""
    assert "ends at 6 already" in obstacle([plan], replace(target(), ends=(6, 0)))


def test_the_time_grows_with_the_head_the_outcomes_and_the_gaps() -> None:
    quick = planned(segment(SOURCE, 5_000_000, 5_000_100), end=5_000_100)
    slow = planned(replace(segment(SOURCE, 0, 300), control_batches=100, records=100), end=300)
    assert 0 < quick.extra_s < slow.extra_s
    assert verdict(quick, slow).extra_s == slow.extra_s
    assert verdict(*[slow] * 100).extra_s > 10 * slow.extra_s
