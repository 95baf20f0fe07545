"""What goes with the points that go: whole segments, named by ranges that no kept point needs anything of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.log.range import PartitionId, Span
from offsite.repository.commit import ExpiredRange
from offsite.repository.segments.segment import SegmentList
from offsite.repository.state import BackupState
from offsite.upkeep.retention.needs import (
    Branches,
    ExpiredSegments,
    NeededBytes,
    PartitionHistory,
    UnneededSegments,
    allow_any,
)
from tests.worlds.retention.retained import Retained


@pytest.fixture
def made() -> Retained:
    """Six segments of ten offsets."""
    made = Retained()
    made.make("a")
    for _ in range(6):
        made.write("a")
        made.commit()
    return made


def gone(state: BackupState, known: PartitionId, *needed: Span, cuts: int = 0) -> ExpiredSegments:
    needs = {PartitionHistory(partition_id=known, cuts=cuts): list(needed)}
    return UnneededSegments(head=state, needs=needs, may_go=allow_any).of(known)


def ranges(found: ExpiredSegments) -> list[Span]:
    return [(each.start, each.end) for each in found.ranges]


def test_neighbours_that_go_are_one_range_from_where_the_partition_begins(made: Retained) -> None:
    state, known = made.backup.state(), made.partition("a")
    assert ranges(gone(state, known, (35, 60))) == [(0, 30)]
    assert ranges(gone(state, known, (0, 10), (40, 60))) == [(10, 40)]
    assert ranges(gone(state, known, (10, 20), (30, 40), (50, 60))) == [(0, 10), (20, 30), (40, 50)]
    assert ranges(gone(state, known, (0, 60))) == []


def test_the_newest_segment_of_a_log_that_goes_on_stays_though_nobody_needs_it(made: Retained) -> None:
    state, known = made.backup.state(), made.partition("a")
    assert ranges(gone(state, known)) == [(0, 50)]
    made.delete("a")
    made.make("a")
    state = made.commit()
    assert ranges(gone(state, known)) == [(0, 60)], "of a topic that is gone nothing is the newest"


def test_no_range_reaches_over_offsets_that_a_point_needs_though_no_segment_holds_them(made: Retained) -> None:
    """That point would be served from behind the range, and what it lacks would not be named."""
    state, known = made.backup.state(), made.partition("a")
    lacking = SegmentList(each for each in state.segments[known] if each.start not in {0, 20})
    state = replace(state, segments={known: lacking})
    assert ranges(gone(state, known, (22, 25), (50, 60))) == [(0, 20), (30, 50)]
    assert ranges(gone(state, known, (2, 5), (50, 60))) == [(10, 50)]
    assert ranges(gone(state, known, (50, 60))) == [(0, 50)]


def test_a_closed_history_is_let_go_apart_from_the_one_that_goes_on(made: Retained) -> None:
    known = made.partition("a")
    made.cut("a", 30)
    made.write("a", 2)
    state = made.commit()
    found = gone(state, known, (0, 50), cuts=1)
    assert found.ranges == (ExpiredRange(partition_id=known, start=30, end=60, branch=1),)
    assert ranges(gone(state, known, (20, 60), cuts=0)) == [(0, 20)]
    assert ranges(gone(state, known, (0, 10), (40, 60), cuts=0)) == [(10, 30), (30, 40)]


def test_what_goes_and_what_stays_is_all_that_is_held(made: Retained) -> None:
    state, known = made.backup.state(), made.partition("a")
    sizes = [each.stored_bytes for each in state.segments[known]]
    found = gone(state, known, (35, 60))
    assert (found.segments, found.bytes, found.held_bytes) == (3, sum(sizes[:3]), sum(sizes))


def test_bytes_are_counted_once_however_often_they_are_needed(made: Retained) -> None:
    state, known = made.backup.state(), made.partition("a")
    sizes = [each.stored_bytes for each in state.segments[known]]
    counted = NeededBytes(head=state, branches=Branches.of(state))
    live = PartitionHistory(partition_id=known, cuts=0)
    counted.add([(live, (5, 15)), (live, (9, 12))])
    assert counted.total == sum(sizes[:2])
    assert counted.total_with([(live, (15, 25)), (live, (21, 22))]) == sum(sizes[:3])
    assert counted.total == sum(sizes[:2])
