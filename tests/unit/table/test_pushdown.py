"""Filters become bounds that never leave out a row which the filters allow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from offsite.table.datasource import narrow
from offsite.table.scan_plan import RowFilter

ALL = RowFilter()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COMPARISONS = {
    EqualTo: lambda a, b: a == b,
    EqualNullSafe: lambda a, b: a == b,
    GreaterThan: lambda a, b: a > b,
    GreaterThanOrEqual: lambda a, b: a >= b,
    LessThan: lambda a, b: a < b,
    LessThanOrEqual: lambda a, b: a <= b,
}


def time(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


@given(st.sampled_from(list(COMPARISONS)), st.integers(-5000, 5000), st.integers(-6, 6))
def test_a_comparison_of_times_takes_the_same_milliseconds(kind: type[Filter], us: int, time_ms: int) -> None:
    rows = narrow(ALL, [kind(("timestamp",), time(us))])  # type: ignore[call-arg]
    assert rows.includes(0, time_ms) == COMPARISONS[kind](time_ms * 1000, us)


@given(st.sampled_from(list(COMPARISONS)), st.integers(0, 9), st.integers(0, 9))
def test_a_comparison_of_offsets_takes_the_same_offsets(kind: type[Filter], wanted: int, offset: int) -> None:
    rows = narrow(ALL, [kind(("offset",), wanted)])  # type: ignore[call-arg]
    assert rows.includes(offset, 0) == COMPARISONS[kind](offset, wanted)


def test_several_filters_narrow_together() -> None:
    rows = narrow(
        ALL,
        [
            In(("topic",), ("a", "b")),
            EqualTo(("topic",), "b"),
            In(("partition",), (1, 2)),
            In(("offset",), (7, 3)),
            GreaterThan(("offset",), 3),
            IsNotNull(("offset",)),
        ],
    )
    assert rows == RowFilter(topics=frozenset({"b"}), partitions=frozenset({1, 2}), start=4, end=8)


@pytest.mark.parametrize(
    "other",
    [
        Not(EqualTo(("offset",), 3)),
        EqualTo(("key",), b"k"),
        EqualTo(("timestampType",), 0),
        GreaterThan(("offset",), 2.5),
        EqualTo(("timestamp",), datetime(2026, 1, 1)),  # noqa: DTZ001
        In(("offset",), (1, None)),
    ],
)
def test_what_is_not_understood_narrows_nothing(other: Filter) -> None:
    assert narrow(ALL, [other]) == ALL
