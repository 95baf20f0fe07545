from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from offsite.backup.copy import BackupReceipt
from offsite.backup.copy_pass import SOURCE_TRUNCATED_ID, Committable, find_committable
from offsite.backup.copy_plan import CopyPlan, CopyTask, PartitionBounds, SickPartition, plan_copy, without_partitions
from offsite.engine.runner import Done, Failed
from offsite.log.range import Gap, GapEvidence, Hole, PartitionId
from offsite.model.errors import LeaderUnavailable, StoreUnreachable, TopicReplaced
from offsite.repository.segments.segment import Segment
from tests.unit.restore.test_restore_plan import partition, segment


def bounds(topic: str, *, end: int = 100, log_start: int = 0) -> PartitionBounds:
    size_bytes = end * 1024 * 1024
    return PartitionBounds(
        topic=topic, topic_id="id-1", partition=0, log_start=log_start, end=end, size_bytes=size_bytes
    )


def copied(task: CopyTask, *holes: Hole) -> Done[BackupReceipt]:
    written = segment(partition(task.range.topic, 0), task.range.start, task.range.end)
    return Done(value=BackupReceipt(segments=(written,), holes=holes))


def receipt(
    *spans: tuple[int, int], holes: Sequence[tuple[int, int]] = (), gaps: Sequence[tuple[int, int]] = ()
) -> Done[BackupReceipt]:
    """Segments whose batches cover `spans`; the range that a task read may be another one."""
    where = {"topic": "a", "partition": 0}
    return Done(
        value=BackupReceipt(
            segments=tuple(segment(partition("a", 0), start, end) for start, end in spans),
            holes=tuple(Hole(**where, start=start, end=end, reason="retention") for start, end in holes),
            gaps=tuple(
                Gap(**where, start=start, end=end, evidence=GapEvidence.BATCH, seen_at=end) for start, end in gaps
            ),
        )
    )


def failed(error: Exception | None = None) -> Failed:
    return Failed(error=error or TopicReplaced("gone"), trace="")  # type: ignore[arg-type]


def outcome(plan: CopyPlan, *failing: tuple[str, int]) -> Committable:
    """Settle with the tasks that start at `failing` (topic, offset) failed."""
    return find_committable(
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
        find_committable(PLAN, [failed(StoreUnreachable("down")) for _ in PLAN.tasks])


def test_holes_of_the_plan_and_of_the_copy_are_recorded_with_their_incarnation() -> None:
    plan = plan_copy([bounds("a", log_start=10)], {PartitionId("a", "id-1", 0): 5}, slots=1)
    found = Hole(topic="a", partition=0, start=20, end=30, reason="retention")
    settled = find_committable(
        plan, [copied(task, found) if n == 0 else copied(task) for n, task in enumerate(plan.tasks)]
    )
    assert [(h.start, h.end, h.partition_id.topic_id) for h in settled.holes] == [(5, 10, "id-1"), (20, 30, "id-1")]


def test_a_run_without_tasks_still_settles_positions() -> None:
    plan = plan_copy([bounds("a")], {PartitionId("a", "id-1", 0): 100}, slots=1)
    assert [p.end for p in find_committable(plan, []).positions] == [100]


TWO = plan_copy([bounds("a")], {}, slots=1)  # [0, 50) and [50, 100)


def test_a_gap_counts_where_its_evidence_is() -> None:
    settled = find_committable(TWO, [receipt((0, 40), gaps=[(40, 50)]), receipt((60, 100), gaps=[(50, 60)])])
    assert [p.end for p in settled.positions] == [100]
    assert [(g.start, g.end, g.evidence) for g in settled.gaps] == [(40, 50, "batch"), (50, 60, "batch")]


def test_offsets_that_nothing_accounts_for_stop_the_position() -> None:
    settled = find_committable(TWO, [receipt((0, 40)), receipt((50, 100))])
    assert [p.end for p in settled.positions] == [40]
    assert [(f.start, f.error) for f in settled.failed] == [(40, "OFF-1408")]
    assert [s.start for s in settled.segments] == [0], "what does not join is an orphan"


def test_a_batch_that_reaches_over_the_planned_end_takes_the_position_along() -> None:
    settled = find_committable(TWO, [receipt((0, 50)), receipt((50, 105))])
    assert ([p.end for p in settled.positions], settled.failed) == ([105], ())


def test_no_segment_is_committed_that_reaches_over_its_position() -> None:
    settled = find_committable(TWO, [receipt((0, 20), (40, 50)), receipt((50, 100))])
    assert ([p.end for p in settled.positions], [s.end for s in settled.segments]) == ([20], [20])


def test_a_batch_over_the_border_is_accounted_for_by_the_range_it_begins_in() -> None:
    settled = find_committable(TWO, [receipt((0, 55)), receipt((55, 100))])
    assert ([p.end for p in settled.positions], settled.failed) == ([100], ())


def test_a_batch_over_the_border_that_was_deleted_before_its_range_read_it_is_read_by_the_next_run() -> None:
    """DeleteRecords up to 52, inside a batch [45, 55), when the second range had left that batch to the first."""
    settled = find_committable(TWO, [receipt((0, 45), holes=[(45, 50)]), receipt((55, 100))])
    assert [p.end for p in settled.positions] == [50]
    assert [(h.start, h.end) for h in settled.holes] == [(45, 50)]


def test_a_batch_over_the_border_that_was_read_before_it_was_deleted_is_no_hole() -> None:
    settled = find_committable(TWO, [receipt((0, 55)), receipt((55, 100), holes=[(50, 52)])])
    assert ([p.end for p in settled.positions], settled.holes) == ([100], ())


def test_a_sick_partition_is_listed_and_keeps_its_position() -> None:
    plan = plan_copy([bounds("a"), bounds("b")], {}, slots=1)
    left = without_partitions(
        plan, [SickPartition(topic="b", partition=0, error=LeaderUnavailable("no leader", hint="look"))]
    )
    settled = find_committable(left, [copied(task) for task in left.tasks])
    assert [p.partition_id.topic for p in settled.positions] == ["a"]
    assert [(f.topic, f.start, f.error, f.hint) for f in settled.failed] == [("b", -1, "OFF-1503", "look")]


def test_partitions_without_news_are_sound_where_another_one_is_sick() -> None:
    plan = plan_copy([bounds("a"), bounds("b")], {PartitionId("a", "id-1", 0): 100}, slots=1)
    settled = find_committable(plan, [failed(LeaderUnavailable("gone")) for _ in plan.tasks])
    assert {p.partition_id.topic: p.end for p in settled.positions} == {"a": 100, "b": 0}
    with pytest.raises(StoreUnreachable):
        find_committable(plan, [failed(StoreUnreachable("down")) for _ in plan.tasks])


def test_where_every_partition_is_sick_the_error_itself_is_raised() -> None:
    plan = plan_copy([bounds("a")], {}, slots=1)
    with pytest.raises(LeaderUnavailable):
        find_committable(
            without_partitions(plan, [SickPartition(topic="a", partition=0, error=LeaderUnavailable("no leader"))]), []
        )


def test_ranges_that_two_leaders_served_from_different_logs_are_not_joined() -> None:
    """Epochs only rise in one log: the second range was read from a replica that never had the first one's."""
    plan = plan_copy([bounds("a")], {}, slots=2)
    assert len(plan.tasks) >= 2
    of_epochs = [5, 3, *[3] * (len(plan.tasks) - 2)]
    outcomes = [
        Done(value=replace(done.value, segments=(replace(done.value.segments[0], leader_epochs=(epoch,)),)))
        for done, epoch in zip(map(copied, plan.tasks), of_epochs, strict=True)
    ]
    found = find_committable(plan, outcomes)
    assert [each.leader_epochs for each in found.segments] == [(5,)]
    assert [each.error for each in found.failed] == [SOURCE_TRUNCATED_ID]
