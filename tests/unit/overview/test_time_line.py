"""The line of restore points: grouped where they are many, with marks for what the repository knows."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from offsite.log.range import TopicIncarnation
from offsite.overview.time_line import GROUPS_MAX, MarkKind, draw_time_line
from offsite.repository.commit import Pin, TopicShape
from offsite.repository.commit_history import LINES_PER_CHUNK, CommitHistory
from offsite.repository.snapshots.check_records import DrillRecord, VerifyRecord
from offsite.repository.state import BackupState
from offsite.upkeep.verification.last_checks import LastChecks

HOUR_MS = 3_600_000


def state_of(count: int, *, step_ms: int = HOUR_MS, holes: int = 0, checkpoint: int = 0) -> BackupState:
    """A backup with a commit each `step_ms`; commit `holes` found a hole, commit `checkpoint` carries checkpoint 7."""
    numbers = range(1, count + 1)
    columns = (
        array("q", numbers),
        array("q", (number * step_ms for number in numbers)),
        array("q", [10] * count),
        array("q", [100] * count),
        array("q", [50] * count),
        array("q", (int(number == holes) for number in numbers)),
        array("q", (7 if number == checkpoint else -1 for number in numbers)),
    )
    return BackupState(backup="shop", seq=count, history=CommitHistory(columns))


def test_few_points_stand_alone_with_what_is_known_of_them() -> None:
    state = replace(state_of(3, holes=2, checkpoint=3), pins=(Pin(seq=1, reason="audit"),))
    line = draw_time_line(state)
    assert [(group.newest.seq, group.count, group.pin) for group in line.groups] == [
        (1, 1, "audit"),
        (2, 1, ""),
        (3, 1, ""),
    ]
    assert [(mark.kind, mark.text, mark.is_bad) for mark in line.marks] == [
        (MarkKind.LOSS, "commit 2 found 1 hole: the source had lost records", True),
        (MarkKind.CHECKPOINT, "checkpoint 7, commit 3", False),
    ]


@pytest.mark.parametrize("count", [33, 1_000, 10_000, LINES_PER_CHUNK + 5_000])
def test_many_points_are_grouped_and_none_is_lost(count: int) -> None:
    line = draw_time_line(state_of(count, holes=count // 2))
    assert len(line.groups) <= GROUPS_MAX
    assert sum(group.count for group in line.groups) == count
    assert line.groups[-1].newest.seq == count
    assert sum(group.holes for group in line.groups) == 1


def test_zooming_in_again_and_again_ends_at_single_points() -> None:
    state = state_of(10_000)
    line = draw_time_line(state)
    for _ in range(4):
        group = line.groups[len(line.groups) // 2]
        line = draw_time_line(state, from_ms=group.from_ms, to_ms=group.to_ms)
        assert line.count == group.count
        if group.count == 1:
            break
    assert all(group.count == 1 for group in line.groups)


def test_points_of_one_moment_are_listed_as_far_as_they_fit() -> None:
    line = draw_time_line(state_of(100, step_ms=1))
    assert (len(line.groups), line.left_out, line.groups[-1].newest.seq) == (GROUPS_MAX, 100 - GROUPS_MAX, 100)


def test_a_view_moves_and_widens_within_the_line() -> None:
    line = draw_time_line(state_of(100), from_ms=10 * HOUR_MS, to_ms=20 * HOUR_MS)
    assert (line.count, line.is_whole) == (11, False)
    assert line.moved(-5) == (HOUR_MS, 11 * HOUR_MS)
    assert line.moved(50) == (90 * HOUR_MS, 100 * HOUR_MS)
    assert line.wider() == (HOUR_MS, 30 * HOUR_MS)


def test_a_view_that_is_none_shows_all() -> None:
    assert draw_time_line(state_of(5), from_ms=9 * HOUR_MS, to_ms=8 * HOUR_MS).is_whole
    assert draw_time_line(BackupState(backup="shop")).count == 0


def test_deletions_and_checks_are_marked() -> None:
    shapes = [
        TopicShape(topic="orders", topic_id=topic_id, partitions=1, replication_factor=1, deleted_ms=deleted_ms)
        for topic_id, deleted_ms in (("a", 2 * HOUR_MS), ("b", -1))
    ]
    topics = {TopicIncarnation(topic="orders", topic_id=shape.topic_id): shape for shape in shapes}
    checks = LastChecks(
        verified=(VerifyRecord(depth="deep", verified_at_ms=9 * HOUR_MS, ok=True, damaged=0, commit=3, head_hash=""),),
        claimed_drill=DrillRecord(drill="d", ended_ms=HOUR_MS, proven=False),
    )
    line = draw_time_line(replace(state_of(3), topics=topics), checks)
    assert [mark.text for mark in line.marks] == [
        "a drill did NOT prove the backup, claimed by another installation",
        "orders was found deleted at the source, and created anew under the same name",
        "deep check as of commit 3: sound",
    ]
