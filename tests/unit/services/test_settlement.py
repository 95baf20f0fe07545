from __future__ import annotations

import pytest

from offsite.log.chunk import Hole
from offsite.model.errors import StoreUnreachable, TopicReplaced
from offsite.pipeline.backup_copy import BackupReceipt
from offsite.pipeline.plan import CopyPlan, CopyTask, PartitionBounds, plan_copy
from offsite.pipeline.runner import Done, Failed
from offsite.repository.segment import Segment
from offsite.services.settlement import Settlement, settle
from tests.unit.pipeline.test_restore_plan import partition, segment


def bounds(topic: str, *, end: int = 100, log_start: int = 0) -> PartitionBounds:
    size_bytes = end * 1024 * 1024
    return PartitionBounds(
        topic=topic, topic_id="id-1", partition=0, log_start=log_start, end=end, size_bytes=size_bytes
    )


def copied(task: CopyTask, *holes: Hole) -> Done[BackupReceipt]:
    written = segment(partition(task.range.topic, 0), task.range.start, task.range.end)
    return Done(value=BackupReceipt(segments=(written,), holes=holes))


def failed(error: Exception | None = None) -> Failed:
    return Failed(error=error or TopicReplaced("gone"), trace="")  # type: ignore[arg-type]


def outcome(plan: CopyPlan, *failing: tuple[str, int]) -> Settlement:
    """Settle with the tasks that start at `failing` (topic, offset) failed."""
    return settle(
        plan,
        [failed() if (t.range.topic, t.range.start) in failing else copied(t) for t in plan.tasks],
    )


def starts(segments: tuple[Segment, ...], topic: str) -> list[int]:
    return [s.start for s in segments if s.topic == topic]


PLAN = plan_copy([bounds("a"), bounds("b")], {}, slots=2)
STARTS = [task.range.start for task in PLAN.tasks if task.range.topic == "a"]


def test_a_complete_copy_moves_every_position_to_its_end() -> None:
    settled = outcome(PLAN)
    assert {p.partition_id.topic: p.end for p in settled.positions} == {"a": 100, "b": 100}
    assert len(settled.segments) == len(PLAN.tasks)
    assert settled.failed == ()


def test_a_failed_range_stops_its_partition_there_and_no_other() -> None:
    settled = outcome(PLAN, ("a", STARTS[1]))
    assert starts(settled.segments, "a") == [0]
    assert starts(settled.segments, "b") == STARTS
    assert {p.partition_id.topic: p.end for p in settled.positions} == {"a": STARTS[1], "b": 100}


def test_the_first_failed_range_is_the_one_reported() -> None:
    (failure,) = outcome(PLAN, ("a", STARTS[1]), ("a", STARTS[-1])).failed
    assert (failure.topic, failure.start, failure.error) == ("a", STARTS[1], "OFF-1103")


def test_when_nothing_was_copied_the_error_itself_is_raised() -> None:
    with pytest.raises(StoreUnreachable):
        settle(PLAN, [failed(StoreUnreachable("down")) for _ in PLAN.tasks])


def test_holes_of_the_plan_and_of_the_copy_are_recorded_with_their_incarnation() -> None:
    plan = plan_copy([bounds("a", log_start=10)], {("id-1", 0): 5}, slots=1)
    found = Hole(topic="a", partition=0, start=20, end=30, reason="retention")
    settled = settle(plan, [copied(task, found) if n == 0 else copied(task) for n, task in enumerate(plan.tasks)])
    assert [(h.start, h.end, h.partition_id.topic_id) for h in settled.holes] == [(5, 10, "id-1"), (20, 30, "id-1")]


def test_a_run_without_tasks_still_settles_positions() -> None:
    plan = plan_copy([bounds("a")], {("id-1", 0): 100}, slots=1)
    assert [p.end for p in settle(plan, []).positions] == [100]
