from __future__ import annotations

from dataclasses import replace

from offsite.kafka.producer import CLUSTER_ACTION, COMMITS_OF_CLIENTS
from offsite.points.point_in_time import PartitionChain
from offsite.repository.segments.segment import Segment
from offsite.restore.offsets import (
    BY_COORDINATOR,
    DIRECT,
    OffsetsVerdict,
    PreservedPartition,
    ReplayWay,
    obstacle,
    preserved_partition,
)
from offsite.restore.write.plan import PartitionRestore
from tests.unit.restore.test_restore_plan import partition, segment, target

SOURCE = partition("t", 0)


def chain(*segments: Segment, end: int) -> PartitionRestore:
    return PartitionRestore.into("t", PartitionChain(source=SOURCE, segments=tuple(segments), end=end))


def planned(*segments: Segment, end: int, way: ReplayWay = DIRECT, target_end: int = 0) -> PreservedPartition:
    return preserved_partition(chain(*segments, end=end), way=way, target_end=target_end)


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


def test_gaps_too_many_for_empty_transactions_are_no_obstacle_with_the_right_to_write_outcomes() -> None:
    cleaned = replace(segment(SOURCE, 0, BY_COORDINATOR.gaps_max + 2), records=1)
    by_coordinator, direct = (planned(cleaned, end=cleaned.end, way=way) for way in (BY_COORDINATOR, DIRECT))
    many = "partition 0 has 20,001 offsets without records, too many to fill without "
    assert obstacle([by_coordinator], None) == many + CLUSTER_ACTION
    only_aborts = replace(BY_COORDINATOR, missing=COMMITS_OF_CLIENTS)
    assert obstacle([planned(cleaned, end=cleaned.end, way=only_aborts)], None) == many + COMMITS_OF_CLIENTS
    assert obstacle([direct], None) == ""


def test_only_outcomes_need_transactions_where_gaps_are_filled_directly() -> None:
    cleaned = replace(segment(SOURCE, 0, 100), records=1)
    assert [planned(cleaned, end=100, way=way).needs_transactions for way in (BY_COORDINATOR, DIRECT)] == [True, False]
    ended = replace(segment(SOURCE, 0, 100), records=99, control_batches=1)
    assert planned(ended, end=100, way=DIRECT).needs_transactions


def test_a_target_that_ends_beyond_the_sources_start_is_an_obstacle() -> None:
    plan = planned(segment(SOURCE, 5, 100), end=100)
    assert obstacle([plan], replace(target(), ends=(5, 0))) == ""
    said = "partition 0 of the target already ends at offset 6, but the source begins at 5"
    assert obstacle([plan], replace(target(), ends=(6, 0))) == said


def test_a_target_that_ends_inside_the_first_batch_before_the_sources_start_is_none() -> None:
    inside_a_batch = replace(segment(SOURCE, 60, 100), first_offset=0)
    plan = planned(inside_a_batch, end=100, target_end=30)
    assert plan.head_offsets == 0
    assert [obstacle([plan], replace(target(), ends=(end, 0))) for end in (30, 60)] == ["", ""]
    assert "already ends at offset 61, but the source begins at 60" in obstacle([plan], replace(target(), ends=(61, 0)))


def test_the_time_grows_with_the_head_the_outcomes_and_the_gaps() -> None:
    quick = planned(segment(SOURCE, 50_000, 50_100), end=50_100)
    slow = planned(replace(segment(SOURCE, 0, 300), control_batches=100, records=100), end=300)
    assert 0 < quick.extra_s < slow.extra_s
    assert verdict(quick, slow).extra_s == slow.extra_s
    assert verdict(*[slow] * 100).extra_s > 10 * slow.extra_s
