"""How long until the source deletes what was not copied."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.model.cleanup_policy import Retention, Uncopied, retention_headroom

NOW_MS = 1_800_000_000_000
HOUR_MS, GIB = 3_600_000, 1 << 30
WEEK = Retention(cleanup_policy="delete", retention_ms=168 * HOUR_MS, retention_bytes=-1)
BIG = Retention(cleanup_policy="delete", retention_ms=-1, retention_bytes=10 * GIB)
OLD = Uncopied(records=5, oldest_ms=NOW_MS - 100 * HOUR_MS)
FAST = Uncopied(records=5, oldest_ms=NOW_MS - HOUR_MS, bytes=4 * GIB, log_bytes=9 * GIB, growth_bytes_per_s=GIB / 100)


def headroom(retention: Retention, uncopied: Uncopied) -> float | None:
    return retention_headroom(retention, uncopied, now_ms=NOW_MS)


def test_by_age_it_is_what_is_left_of_the_oldest_uncopied_record() -> None:
    assert headroom(WEEK, OLD) == 68 * 3600


def test_by_size_it_is_the_time_in_which_the_uncopied_part_grows_to_the_limit() -> None:
    assert headroom(BIG, FAST) == 600  # 6 GiB are left, 1 GiB in 100 s comes


@pytest.mark.parametrize(("hours", "expected"), [(1, 0.0), (2, 600.0)])
def test_of_two_limits_the_first_counts(hours: int, expected: float) -> None:
    assert headroom(replace(BIG, retention_ms=hours * HOUR_MS), FAST) == expected


@pytest.mark.parametrize(
    ("retention", "uncopied"),
    [
        (WEEK, replace(OLD, oldest_ms=NOW_MS - 169 * HOUR_MS)),
        (replace(WEEK, retention_ms=0), replace(OLD, oldest_ms=NOW_MS)),
        (BIG, replace(FAST, bytes=11 * GIB)),
        (replace(BIG, retention_ms=HOUR_MS), replace(FAST, oldest_ms=-1, bytes=11 * GIB)),
        (replace(WEEK, retention_bytes=None), replace(OLD, oldest_ms=0)),
    ],
    ids=["older than retention", "no retention", "larger than retention", "time not known", "size not known"],
)
def test_what_may_be_deleted_already_has_none(retention: Retention, uncopied: Uncopied) -> None:
    assert headroom(retention, uncopied) == 0.0


@pytest.mark.parametrize(
    "retention",
    [
        replace(WEEK, retention_ms=-1),
        replace(WEEK, cleanup_policy="compact"),
        replace(WEEK, cleanup_policy=""),
    ],
    ids=["no limits", "only compacted", "no policy"],
)
def test_where_nothing_is_ever_deleted_there_is_none_to_tell(retention: Retention) -> None:
    assert headroom(retention, OLD) is None


def test_where_all_is_copied_there_is_none_to_tell() -> None:
    assert headroom(WEEK, replace(OLD, records=0)) is None


def test_a_partition_that_does_not_grow_is_never_too_large() -> None:
    still = replace(FAST, growth_bytes_per_s=0.0)
    assert headroom(BIG, still) is None
    assert headroom(replace(BIG, retention_ms=2 * HOUR_MS), still) == 3600


@pytest.mark.parametrize(
    ("retention", "uncopied"),
    [
        (WEEK, replace(OLD, oldest_ms=-1)),
        (replace(BIG, retention_ms=2 * HOUR_MS), replace(FAST, oldest_ms=-1)),
        (replace(BIG, retention_ms=2 * HOUR_MS), replace(FAST, growth_bytes_per_s=-1)),
        (BIG, replace(FAST, bytes=-1, log_bytes=-1)),
        (BIG, replace(FAST, bytes=-1, log_bytes=11 * GIB)),  # as every log at its limit has: nothing is wrong with it
        (replace(WEEK, retention_bytes=None), OLD),
        (replace(BIG, retention_ms=None), FAST),
    ],
)
def test_what_is_not_known_is_not_made_up(retention: Retention, uncopied: Uncopied) -> None:
    assert headroom(retention, uncopied) is None


def test_no_more_than_the_whole_log_is_uncopied() -> None:
    assert headroom(BIG, replace(FAST, bytes=-1)) == 100


def test_the_rules_come_from_the_settings_of_the_topic() -> None:
    told = {"cleanup.policy": "compact,delete", "retention.ms": "604800000", "retention.bytes": "-1"}
    assert Retention.of(told) == replace(WEEK, cleanup_policy="compact,delete")
    assert headroom(Retention.of(told), OLD) == 68 * 3600
    by_broker = told | {"message.timestamp.type": "LogAppendTime"}
    assert headroom(Retention.of(by_broker), OLD) == 68 * 3600
    assert Retention.of({}) == Retention(cleanup_policy="delete", retention_ms=None, retention_bytes=None)
    assert Retention.of({"retention.ms": "soon"}).retention_ms is None
