from __future__ import annotations

import pytest

from offsite.model.errors import BadOption
from offsite.model.units import format_duration, format_time, parse_duration_s, parse_time

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("2026-11-20T14:00:00Z", 1_795_183_200_000),
        ("2026-11-20 14:00", 1_795_183_200_000),
        ("2026-11-20T15:00:00+01:00", 1_795_183_200_000),
        ("1795183200000", 1_795_183_200_000),
        ("2h-ago", NOW_MS - 7_200_000),
        ("90 s ago", NOW_MS - 90_000),
    ],
)
def test_times_are_read_as_people_write_them(text: str, expected_ms: int) -> None:
    assert parse_time(text, now_ms=NOW_MS) == expected_ms


@pytest.mark.parametrize("text", ["", "yesterday", "14", "2026-13-01"])
def test_what_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(BadOption):
        parse_time(text, now_ms=NOW_MS)


def test_a_formatted_time_reads_back() -> None:
    assert parse_time(format_time(NOW_MS + 123), now_ms=0) == NOW_MS + 123


def test_a_time_beyond_the_calendar_is_still_shown() -> None:
    assert format_time(2**63 - 1) == "9223372036854775807 ms"


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [(0.85, "850 ms"), (12.34, "12.3 s"), (245, "4 min 05 s"), (12_000, "3 h 20 min"), (187_200, "2 d 4 h")],
)
def test_durations_are_short(duration_s: float, text: str) -> None:
    assert format_duration(duration_s) == text


@pytest.mark.parametrize(
    ("text", "duration_s"), [("500ms", 0.5), ("10s", 10), ("1.5m", 90), (" 2 h", 7200), ("1d", 86400)]
)
def test_a_duration_is_read_as_people_write_it(text: str, duration_s: float) -> None:
    assert parse_duration_s(text) == duration_s


@pytest.mark.parametrize("text", ["", "soon", "10", "-5s", "1e3s", "5 s m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="not a duration"):
        parse_duration_s(text)


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 5000 + "d-ago", "99999999999w ago", str(1 << 63), "\u00b2" * 12])
def test_times_that_kafka_cannot_have_are_refused(text: str) -> None:
    with pytest.raises(BadOption):
        parse_time(text, now_ms=NOW_MS)


@pytest.mark.parametrize("text", ["9" * 5000 + "s", "99999999999999d"])
def test_nothing_waits_for_ever(text: str) -> None:
    with pytest.raises(BadOption, match="is too long"):
        parse_duration_s(text)
