"""What a restore may claim, and what it lacks."""

from __future__ import annotations

from dataclasses import replace

from offsite.repository.commit import RecordedHole
from offsite.services.hole_report import HoleReport, lacking
from offsite.services.restore import RestoredTopic, RestoreResult
from offsite.services.restore_verdict import nothing_restored
from tests.unit.pipeline.test_restore_plan import backup, partition, plan, shape

RESULT = RestoreResult(
    restore="r",
    backup="b",
    commit=3,
    offsets="auto",
    isolation="read_committed",
    resumed=False,
    records=0,
    bytes=0,
    topics={},
    skipped=(),
    held_back=(),
    left_out=(),
    holes=0,
    verified=None,
    findings=(),
)


def restored(source: str, *, records: int = 0, invisible_records: int = 0) -> RestoredTopic:
    return RestoredTopic(
        source=source,
        partitions=1,
        same_offsets=False,
        records=records,
        bytes=0,
        invisible_records=invisible_records,
        undecided_transactions=0,
    )


def test_a_restore_without_records_names_the_topics_of_which_there_were_none() -> None:
    found = replace(RESULT, topics={"a": restored("a"), "b.back": restored("b", invisible_records=1200)})
    assert nothing_restored(found) == (
        "nothing was restored: at commit 3 the backup holds no records of a, b, but 1,200 aborted or undecided ones"
    )
    assert nothing_restored(replace(found, records=1)) == ""


def test_a_thousand_empty_topics_are_not_all_named() -> None:
    found = replace(RESULT, topics={f"t{n:03}": restored(f"t{n:03}") for n in range(1000)})
    assert nothing_restored(found).endswith("t011 and 988 more topics")


def test_holes_count_as_far_as_a_restore_reaches() -> None:
    state = backup(shape("t"), shape("u"))
    holes = tuple(
        RecordedHole(partition_id=partition(topic, number), start=start, end=start + 2, reason="retention")
        for topic, number, start in (("t", 0, 3), ("t", 0, 10), ("t", 1, 0), ("u", 0, 3))
    )
    state = replace(state, holes=holes)
    expected = [HoleReport(topic="t", partition=p, start=s, end=s + 2, reason="retention") for p, s in ((0, 3), (1, 0))]
    assert list(lacking(plan(state, "t"), state)) == expected
    without = replace(state, segments={partition("u", 0): state.segments[partition("u", 0)]})
    assert [(hole.partition, hole.start) for hole in lacking(plan(without, "t"), state)] == [(1, 0)]
