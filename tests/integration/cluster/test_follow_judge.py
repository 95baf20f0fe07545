"""The judge of the soak sees every kind of loss: one that finds nothing would prove nothing."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.integration.cluster.busy_source import Life, Records
from tests.integration.cluster.follow_judge import (
    STRANGE,
    Hole,
    Key,
    ReadCommit,
    false_holes,
    late,
    not_held,
    told_by,
)

KEY: Key = ("id", 0)
LOST = Hole(start=2, end=4, reason="retention")


def records(*offsets: int, first_number: int = 0) -> Records:
    """One a second, numbered in the order of offsets."""
    numbers = range(first_number, first_number + len(offsets))
    return Records(array("q", offsets), array("q", numbers), array("d", map(float, offsets)))


def commit(end: int, at_s: float, **parts: object) -> ReadCommit:
    bare = ReadCommit(
        at_s=at_s,
        is_round=True,
        positions={KEY: end},
        starts={KEY: 0},
        holes=(),
        left_behind=frozenset(),
        deleted=frozenset(),
        added={},
        removed=frozenset(),
    )
    return replace(bare, **parts)  # type: ignore[arg-type]


LIFE = Life(topic="t", topic_id="id", is_losing=True, sent={0: 10}, acked={0: records(*range(10))})
COMMITS = (commit(2, 3.0), commit(6, 6.0, holes=((KEY, LOST),)), commit(10, 20.0))
HELD = Records(array("q", [0, 1, 4, 5, 6, 7, 8, 9]), array("q", [0, 1, 4, 5, 6, 7, 8, 9]))


def faults(
    life: Life = LIFE, commits: tuple[ReadCommit, ...] = COMMITS, found: Records = HELD, low: int = 4
) -> Iterator[str]:
    told = told_by(commits)
    yield from late(commits, [life])
    yield from not_held(life, told, {0: found})
    yield from false_holes(life, told, {0: low})


def test_a_promise_that_was_kept_has_no_fault() -> None:
    assert list(faults()) == []


@pytest.mark.parametrize(
    ("offsets", "numbers", "fault"),
    [
        ([0, 1, 4, 5, 6, 8, 9], [0, 1, 4, 5, 6, 8, 9], "1 acknowledged records are not there, from 7 to 7"),
        ([0, 1, 4, 5, 6, 7, 8], [0, 1, 4, 5, 6, 7, 8], "from 9 to 9"),
        ([0, 1, 4, 5, 5, 6, 7, 8, 9], [0, 1, 4, 5, 5, 6, 7, 8, 9], "doubled"),
        ([0, 1, 4, 5, 6, 7, 8, 9, 10], [0, 1, 4, 5, 6, 7, 8, 9, 9], "doubled"),
        ([0, 1, 4, 5, 6, 7, 8, 9, 10], [0, 1, 4, 5, 6, 7, 8, 9, 10], "outside of"),
        ([0, 1, 3, 4, 5, 6, 7, 8, 9], [0, 1, 3, 4, 5, 6, 7, 8, 9], "records in the hole"),
        ([0, 1, 4, 5, 6, 7, 8, 9], [0, 1, 4, 5, STRANGE, 7, 8, 9], "another topic"),
        ([0, 1, 4, 5, 6, 7, 8, 9], [0, 1, 5, 4, 6, 7, 8, 9], "another order"),
    ],
)
def test_what_is_not_held_is_a_fault(offsets: list[int], numbers: list[int], fault: str) -> None:
    assert fault in " ".join(faults(found=Records(array("q", offsets), array("q", numbers))))


def test_a_round_that_leaves_old_records_is_a_fault_unless_it_says_so() -> None:
    first, second, last = COMMITS
    idle = (first, second, replace(last, positions={KEY: 6}))
    whole = Records(HELD.offsets[:4], HELD.numbers[:4])
    quick = replace(LIFE, acked={0: Records(LIFE.acked[0].offsets, LIFE.acked[0].numbers, array("d", [3.0] * 10))})
    assert "had been there" in " ".join(faults(quick, idle, whole))
    named = (first, second, replace(last, positions={KEY: 6}, left_behind=frozenset([KEY])))
    assert list(faults(quick, named, whole)) == []


@pytest.mark.parametrize(("is_losing", "low"), [(True, 3), (False, 4)])
def test_a_hole_where_brokers_deleted_nothing_is_a_fault(is_losing: bool, low: int) -> None:
    life = replace(LIFE, is_losing=is_losing)
    assert "brokers have everything" in " ".join(faults(life, low=low))
