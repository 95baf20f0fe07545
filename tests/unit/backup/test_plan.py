from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from offsite.backup.copy_plan import (
    NO_WINDOW,
    TASK_BYTES_MAX,
    TASK_OFFSETS_MAX,
    PartitionBounds,
    SickPartition,
    plan_copy,
    without_partitions,
)
from offsite.log.range import PartitionId
from offsite.model.errors import SourceTruncated
from offsite.model.units import MIB


def bounds(*, log_start: int = 0, end: int = 1000, size_bytes: int = 0, partition: int = 0) -> PartitionBounds:
    return PartitionBounds(
        topic="t", topic_id="id", partition=partition, log_start=log_start, end=end, size_bytes=size_bytes
    )


def test_a_new_partition_is_copied_from_its_log_start() -> None:
    (task,) = plan_copy([bounds(log_start=1000, end=1500)], {}, slots=2).tasks
    assert (task.range.start, task.range.end) == (1000, 1500)


def test_a_partition_continues_at_its_committed_position() -> None:
    (task,) = plan_copy([bounds()], {PartitionId("t", "id", 0): 400}, slots=2).tasks
    assert (task.range.start, task.range.end) == (400, 1000)


def test_a_partition_without_news_gives_no_task() -> None:
    plan = plan_copy([bounds()], {PartitionId("t", "id", 0): 1000}, slots=2)
    assert plan.tasks == ()
    assert len(plan.bounds) == 1


def test_what_retention_took_is_a_named_hole() -> None:
    plan = plan_copy([bounds(log_start=700)], {PartitionId("t", "id", 0): 400}, slots=2)
    (hole,) = plan.holes
    assert (hole.start, hole.end, hole.reason) == (400, 700, "retention")
    assert plan.tasks[0].range.start == 700


def test_a_partition_that_ends_before_its_position_is_sick_and_holds_no_other_back() -> None:
    plan = plan_copy([bounds(), bounds(partition=1)], {PartitionId("t", "id", 0): 1001}, slots=2)
    assert [(each.partition, "t/0 ends at 1000" in each.error.message) for each in plan.sick] == [(0, True)]
    assert [task.range.partition for task in plan.tasks] == [1]
    assert [each.partition for each in plan.bounds] == [1]


def test_every_task_of_a_partition_has_the_start_of_its_window() -> None:
    both = [bounds(end=10 * TASK_OFFSETS_MAX), bounds(partition=1)]
    tasks = plan_copy(both, {}, slots=2, window_starts={PartitionId("t", "id", 0): 7}).tasks
    assert {(task.range.partition, task.window_start) for task in tasks} == {(0, 7), (1, NO_WINDOW)}
    assert len(tasks) > 2


def test_topics_of_brokers_without_topic_ids_have_positions_of_their_own() -> None:
    nameless = [replace(bounds(), topic=topic, topic_id="") for topic in ("a", "b")]
    plan = plan_copy(nameless, {PartitionId("a", "", 0): 900, PartitionId("b", "", 0): 100}, slots=1)
    assert {task.range.topic: task.range.start for task in plan.tasks} == {"a": 900, "b": 100}


def test_a_large_partition_of_unknown_size_is_cut_by_offsets() -> None:
    plan = plan_copy([bounds(end=10 * TASK_OFFSETS_MAX)], {}, slots=2)
    assert len(plan.tasks) == 10
    assert [task.is_first for task in plan.tasks] == [True] + [False] * 9


def test_partitions_left_out_afterwards_are_named_once() -> None:
    plan = plan_copy([bounds(), bounds(partition=1)], {PartitionId("t", "id", 0): 1001}, slots=2)
    cut_back = [SickPartition(topic="t", partition=n, error=SourceTruncated("cut back")) for n in (0, 1)]
    left = without_partitions(plan, cut_back)
    assert (left.tasks, left.bounds) == ((), ())
    assert [(each.partition, each.error.message) for each in left.sick] == [(0, "cut back"), (1, "cut back")]


def test_another_incarnation_does_not_inherit_the_position() -> None:
    (task,) = plan_copy([bounds()], {PartitionId("t", "old-id", 0): 900}, slots=2).tasks
    assert task.range.start == 0


def test_tasks_alternate_between_partitions() -> None:
    plan = plan_copy([bounds(partition=p, size_bytes=400 * MIB) for p in range(3)], {}, slots=2)
    assert [t.range.partition for t in plan.tasks[:6]] == [0, 1, 2, 0, 1, 2]


@given(
    start=st.integers(0, 10**12),
    length=st.integers(0, 10**9),
    size_bytes=st.integers(0, 10**11),
    slots=st.integers(1, 64),
)
def test_tasks_cover_the_pending_range_exactly(start: int, length: int, size_bytes: int, slots: int) -> None:
    plan = plan_copy([bounds(log_start=start, end=start + length, size_bytes=size_bytes)], {}, slots=slots)
    edges = [t.range.start for t in plan.tasks] + [start + length]
    assert edges[0] == start
    assert all(t.range.end == after for t, after in zip(plan.tasks, edges[1:], strict=True))
    assert all(len(t.range) > 0 and t.estimated_bytes <= 2 * TASK_BYTES_MAX for t in plan.tasks if len(t.range) > 1)
