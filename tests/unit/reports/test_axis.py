"""Axes have few round ticks in human units, whatever the values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.reports.axis import INTERVALS_MAX, TIME_MAX_MS, Unit, time_axis, value_axis

HOUR_MS = 3_600_000
START_MS = 1_764_288_000_000  # 2025-11-28, midnight
HOUR_S, DAY_S, MIB = 3600, 86_400, 1024**2


def labels(unit: Unit, *values: float) -> list[str]:
    axis = value_axis(values, unit)
    return [unit.label(tick) for tick in axis.ticks]


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        (Unit.SECONDS, 0.3, ["0", "100 ms", "200 ms", "300 ms"]),
        (Unit.SECONDS, 59, ["0", "15 s", "30 s", "45 s", "1 min"]),
        (Unit.SECONDS, 5 * HOUR_S, ["0", "2 h", "4 h", "6 h"]),
        (Unit.SECONDS, 40 * DAY_S, ["0", "10 d", "20 d", "30 d", "40 d"]),
        (Unit.BYTES, 900, ["0", "256 B", "512 B", "768 B", "1 KiB"]),
        (Unit.BYTES, 3.3 * MIB, ["0", "1 MiB", "2 MiB", "3 MiB", "4 MiB"]),
        (Unit.BYTES_PER_S, 1000 * MIB, ["0", "256 MiB/s", "512 MiB/s", "768 MiB/s", "1 GiB/s"]),
        (Unit.RECORDS_PER_S, 0.3, ["0", "0.1/s", "0.2/s", "0.3/s"]),
        (Unit.RECORDS_PER_S, 18_000, ["0", "5,000/s", "10,000/s", "15,000/s", "20,000/s"]),
        (Unit.RECORDS_PER_S, 3_400_000, ["0", "1 M/s", "2 M/s", "3 M/s", "4 M/s"]),
    ],
)
def test_ticks_are_round_in_the_unit_that_people_use(unit: Unit, value: float, expected: list[str]) -> None:
    assert labels(unit, value) == expected


def test_zero_one_huge_and_negative_values_have_an_axis() -> None:
    assert labels(Unit.SECONDS, 0) == ["0", "500 ms", "1 s"]
    assert labels(Unit.BYTES, 0) == ["0", "1 B"]
    assert labels(Unit.BYTES, 1) == ["0", "1 B"]
    assert labels(Unit.SECONDS, -5, 10) == ["-5 s", "0", "5 s", "10 s"]
    assert labels(Unit.BYTES, 2**63)[-1] == "8388608 TiB"
    assert labels(Unit.SECONDS) == labels(Unit.SECONDS, 0), "no value at all"
    assert labels(Unit.BYTES, float("nan"), float("inf"), 4) == labels(Unit.BYTES, 4)


@given(st.lists(st.floats(min_value=-1e15, max_value=1e15), min_size=1), st.sampled_from(Unit))
def test_every_value_lies_between_the_first_and_the_last_of_a_few_ticks(values: list[float], unit: Unit) -> None:
    axis = value_axis(values, unit)
    assert 2 <= len(axis.ticks) <= INTERVALS_MAX + 2
    assert all(-1e-6 <= axis.share(value) <= 1 + 1e-6 for value in values)
    assert len({unit.label(tick) for tick in axis.ticks}) == len(axis.ticks)


@pytest.mark.parametrize(
    ("length_ms", "expected"),
    [
        (0, ["00:00:00 2025-11-28", "00:00:01"]),
        (HOUR_MS, ["00:00 2025-11-28", "00:15", "00:30", "00:45", "01:00"]),
        (26 * HOUR_MS, ["00:00 2025-11-28", "12:00", "00:00 2025-11-29"]),
        (72 * HOUR_MS, ["Nov 28 2025", "Nov 29", "Nov 30", "Dec 1"]),
        (28 * 24 * HOUR_MS, ["Dec 1 2025", "Dec 8", "Dec 15", "Dec 22"]),
        (120 * 24 * HOUR_MS, ["2025-12", "2026-01", "2026-02", "2026-03"]),
        (4000 * 24 * HOUR_MS, ["2030", "2035"]),
    ],
)
def test_a_time_axis_has_dates_in_utc_each_told_once(length_ms: int, expected: list[str]) -> None:
    ticks = time_axis(START_MS, START_MS + length_ms).ticks
    assert [f"{tick.label} {tick.date}".strip() for tick in ticks] == expected


@given(st.integers(-1, 2**63), st.integers(0, 2**63))
def test_any_time_has_an_axis_with_few_ticks(first_ms: int, length_ms: int) -> None:
    axis = time_axis(first_ms, first_ms + length_ms)
    assert 0 <= axis.first_ms < axis.last_ms <= TIME_MAX_MS
    assert len(axis.ticks) <= INTERVALS_MAX + 1
    assert all(0 <= axis.share(tick.at_ms) <= 1 for tick in axis.ticks)


def test_a_value_is_told_with_its_unit() -> None:
    assert Unit.SECONDS.describe(0) == "0 s"
    assert Unit.SECONDS.describe(-90) == "-1 min 30 s"
    assert Unit.BYTES.describe(1536) == "1.5 KiB"
    assert Unit.BYTES_PER_S.describe(1536) == "1.5 KiB/s"
    assert Unit.RECORDS_PER_S.describe(1234.6) == "1,235 records/s"
