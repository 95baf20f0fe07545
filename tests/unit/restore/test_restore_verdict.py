"""What a restore may claim, and what it lacks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from offsite.model.topic_choices import parse_partitions
from offsite.points.point_in_time import point_in_time
from offsite.reports.point_report import HoleReport, hole_reports
from offsite.repository.commit import RecordedHole
from offsite.restore.result import (
    ExcludedRecords,
    RestoredTopic,
    RestoreResult,
    describe_nothing_restored,
    excluded_records,
)
from tests.unit.restore.test_restore_plan import backup, partition, plan, shape
from tests.unit.restore.test_set_aside import RECORD

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
    assert describe_nothing_restored(found) == (
        "nothing was restored: at commit 3 the backup has no records of a, b, but 1,200 aborted or undecided ones"
    )
    assert describe_nothing_restored(replace(found, records=1)) == ""


def test_a_backup_whose_records_an_option_left_out_is_not_called_empty() -> None:
    excluded = (
        ExcludedRecords(options=("--partitions a:1",), records=1500),
        ExcludedRecords(options=("--at 2020-01-01T00:00:00.000Z", "--before a/1=3"), records=70),
    )
    found = replace(RESULT, topics={"a": restored("a", invisible_records=30)}, excluded=excluded)
    assert describe_nothing_restored(found) == (
        "nothing was restored: of the 1,600 records of a that the backup has at commit 3, --partitions a:1 left out "
        "1,500, --at 2020-01-01T00:00:00.000Z and --before a/1=3 left out 70; the other 30 are aborted or undecided"
    )


@pytest.mark.parametrize(
    ("request_", "point", "expected"),
    [
        ({}, {}, []),
        ({"at": "1"}, {"until_ms": 1}, [(("--at 1970-01-01T00:00:00.001Z",), 10)]),
        ({"before": "t/0=0"}, {"ends": {0: 0}}, [(("--before t/0=0",), 10)]),
        ({"ends": "t/0=0"}, {"ends": {0: 0}}, [(("--offsets-file",), 10)]),
        ({"checkpoint": "4"}, {"ends": {0: 0}}, [(("--checkpoint 4",), 10)]),
        ({"checkpoint": "4"}, {}, []),
        ({"at": "1", "partitions": "t:1"}, {"until_ms": 1, "partitions": ["t:1"]}, [(("--partitions t:1",), 10)]),
        (
            {"at": "1", "before": "t/0=3"},
            {"until_ms": 1, "ends": {0: 3}},
            [(("--at 1970-01-01T00:00:00.001Z", "--before t/0=3"), 10)],
        ),
    ],
)
def test_what_an_option_leaves_out_is_counted(
    request_: dict[str, str], point: dict[str, Any], expected: list[tuple[tuple[str, ...], int]]
) -> None:
    """`backup` has ten records of each topic; the one that is not restored counts for nothing."""
    state = backup(shape("t"), shape("u"))
    ends = {partition("t", number): end for number, end in point.pop("ends", {}).items()}
    cut = point_in_time(state, ends=ends, partitions=parse_partitions(point.pop("partitions", ())), **point)
    record = replace(RECORD, request=tuple(request_.items()))
    found = excluded_records(cut, plan(cut.state, "t"), record, invisible_records=0 if expected else 10)
    assert [(each.options, each.records) for each in found] == expected


def test_a_thousand_empty_topics_are_not_all_named() -> None:
    found = replace(RESULT, topics={f"t{n:03}": restored(f"t{n:03}") for n in range(1000)})
    assert describe_nothing_restored(found).endswith("t011 and 988 more topics")


def test_holes_count_as_far_as_a_restore_reaches() -> None:
    state = backup(shape("t"), shape("u"))
    holes = tuple(
        RecordedHole(partition_id=partition(topic, number), start=start, end=start + 2, reason="retention")
        for topic, number, start in (("t", 0, 3), ("t", 0, 10), ("t", 1, 0), ("u", 0, 3))
    )
    state = replace(state, holes=holes)
    expected = [HoleReport(topic="t", partition=p, start=s, end=s + 2, reason="retention") for p, s in ((0, 3), (1, 0))]
    assert list(hole_reports(plan(state, "t").holes_within(state))) == expected
    without = replace(state, segments={partition("u", 0): state.segments[partition("u", 0)]})
    assert [(hole.partition, hole.start) for hole in hole_reports(plan(without, "t").holes_within(state))] == [(1, 0)]
