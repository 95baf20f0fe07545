"""What is looked for in a cluster: exactly what the backup speaks for, neither less nor more."""

from __future__ import annotations

from dataclasses import replace

from offsite.log.range import LogRange, PartitionId, TopicPartition
from offsite.points.point_in_time import PartitionChain
from offsite.restore.compare.expected import BackupExtent, ExpectedBounds, ExpectedTopic, PartitionCheck, plan_checks
from tests.unit.restore.test_restore_plan import segment

SOURCE = PartitionId(topic="orders", topic_id="id-1", partition=0)
TARGET = TopicPartition(topic="orders", partition=0)
HOLE = LogRange(topic="orders", partition=0, start=40, end=60)


def topic(extent: BackupExtent | None, *segments: tuple[int, int]) -> ExpectedTopic:
    """The very topic that was backed up, with one partition."""
    held = tuple(segment(SOURCE, start, end) for start, end in segments)
    end = extent.end if extent is not None else max(end for _, end in segments)
    chain = PartitionChain(source=SOURCE, segments=held, end=end)
    return ExpectedTopic(
        source="orders",
        target="orders",
        partitions=1,
        chains={0: chain} if held else {},
        starts=None,
        read_committed=False,
        same_offsets=extent is not None,
        extents=None if extent is None else {0: extent},
        whole_log=extent is not None,
    )


def check(expected: ExpectedTopic, start: int, end: int, *, exact: bool = False) -> PartitionCheck:
    (found,) = plan_checks(expected, {TARGET: ExpectedBounds(start=start, end=end)}, exact=exact)
    return found


def test_all_below_the_committed_position_is_compared_and_only_the_rest_was_written_since() -> None:
    found = check(topic(BackupExtent(start=0, end=100), (0, 90)), 0, 134)
    assert found.task is not None
    assert (found.target.start, found.target.end, found.task.bounded) == (0, 100, True)
    assert found.later_offsets(-1) == 34
    assert check(topic(BackupExtent(start=0, end=100), (0, 90)), 0, 100).later_offsets(-1) == 0


def test_a_log_that_ends_below_the_position_is_truncated() -> None:
    found = check(topic(BackupExtent(start=0, end=100), (0, 90)), 0, 95)
    assert (found.truncated, found.later_offsets(-1)) == (
        "its log ends at offset 95, the backup has records up to 100",
        0,
    )
    assert found.task is not None
    assert not found.task.goes_on


def test_a_partition_that_is_empty_in_the_backup_is_looked_at_up_to_its_position() -> None:
    found = check(topic(BackupExtent(start=0, end=50)), 0, 80)
    assert found.task is not None
    assert (len(found.target), found.task.bounded, found.later_offsets(-1)) == (50, True, 30)
    assert check(topic(BackupExtent(start=0, end=0)), 0, 80).task is None


def test_recorded_holes_are_passed_over_and_counted_as_far_as_they_are_compared() -> None:
    expected = topic(BackupExtent(start=0, end=100, holes=(HOLE,)), (0, 40), (60, 100))
    found = check(expected, 0, 100)
    assert found.task is not None
    assert (found.task.holes, found.hole_offsets) == ((HOLE,), 20)
    assert check(expected, 50, 100).hole_offsets == 10
    assert check(expected, 60, 100).hole_offsets == 0


def test_what_the_cluster_deleted_is_neither_read_from_the_backup_nor_more_than_that_held() -> None:
    expected = topic(BackupExtent(start=0, end=100), (0, 50), (50, 100))
    found = check(expected, 70, 200)
    assert found.task is not None
    assert [each.start for each in found.task.partition.segments] == [50]
    assert (found.expired_offsets, found.task.skip_below) == (70, 70)
    gone = check(expected, 150, 200)
    assert (gone.expired_offsets, gone.task, gone.later_offsets(-1)) == (100, None, 100)


def test_a_log_whose_start_went_back_is_compared_from_where_its_backup_began() -> None:
    found = check(topic(BackupExtent(start=30, end=100), (30, 100)), 0, 100)
    assert (found.target.start, found.target.end) == (30, 100)


def test_a_copy_without_the_offsets_is_compared_to_its_end() -> None:
    found = check(topic(None, (0, 90)), 0, 134)
    assert found.task is not None
    assert (found.target.end, found.task.bounded) == (134, False)
    assert (found.later_offsets(-1), found.later_offsets(120)) == (0, 14)


def test_exactly_means_the_whole_log() -> None:
    found = check(topic(BackupExtent(start=0, end=100), (0, 90)), 0, 134, exact=True)
    assert (found.target.start, found.target.end) == (0, 134)


def test_a_partition_without_bounds_is_left_to_others() -> None:
    expected = replace(topic(BackupExtent(start=0, end=100), (0, 90)), partitions=2)
    assert len(list(plan_checks(expected, {TARGET: ExpectedBounds(start=0, end=100)}, exact=False))) == 1
