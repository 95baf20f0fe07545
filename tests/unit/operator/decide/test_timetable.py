"""One parser of cron lines and zones, for whoever declares them and for who goes by them; the schema says the same."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.model.errors import BadResource
from offsite.operator.decide import schedule
from offsite.operator.decide.schedule import Timetable
from offsite.operator.resources.jobs import CRON, TIME_ZONE

TAKEN = (
    *(
        "0 3 * * 0",
        "*/15 * * * *",
        "0 3 * * 7",
        "0 3 * * 5#2",
        "0 3 * * MON-FRI",
        "0 3 * jan,Feb sun",
        "5,10-20/5 * * * *",
    ),
    *("0 3 L * *", "0 3 LW * *", "0 3 * * 5L", "0 3 * * MON#1", "00 03 01 01 *", "*/60 * * * *", "0 */24 * * *"),
    *("0 3 29 2 *", "0 3 30 2 1", " 0  3 * * * ", "0 3 * */12 */7", "0 3 */31 * *"),
)
REFUSED = {
    "60 * * * *": "Bad minute",
    "*/0 * * * *": "Bad minute",
    "0 24 * * *": "Bad hour",
    "0 3 0 * *": "Bad day-of-month",
    "0 3 32 * *": "Bad day-of-month",
    "0 3 * 13 *": "Bad month",
    "0 3 * * 8": "Bad day-of-week",
    "H 3 * * *": "Bad minute",
    "@every 1h": "five fields",
    "0 0 3 * * *": "five fields",
    "0 0 3 * * ? *": "five fields",
    "TZ=Europe/Zurich 0 3 * * *": "five fields",
    "0 3 * * # x y": "five fields",
    "0 3 1W * *": "Bad day-of-month",
    "0 3 ? * *": "Bad day-of-month",
    "*/70 * * * *": "larger than its 60 values",
    "0 */25 * * *": "larger than its 24 values",
    "0 3 */32 * *": "larger than its 31 values",
    "0 3 * * MON#6": "Bad day-of-week",
}
ONLY_PARSED = {
    "0 3 30 2 *": "never runs",
    "0 3 31 2,4,6,9,11 *": "never runs",
    "5-1 * * * *": "Bad minute",
}
"""Which a schema cannot see."""
ZONES = ("UTC", "Europe/Zurich", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "GMT", "EST5EDT")
NO_ZONES = (
    *("Europe/Zürich", "europe/zurich", "../../etc/passwd", "+02:00", "localtime", "/etc/localtime", "posixrules"),
    *("right/UTC", "posix/UTC", "utc", "Europe/", "zone.tab", " UTC", "UTC\n"),
)
ONLY_LOOKED_UP = ("Local", "Z", "Factory", "Europe", "Europe/Nowhere")


@pytest.mark.parametrize("cron", TAKEN)
def test_a_cron_line_is_taken(cron: str) -> None:
    assert Timetable(cron=cron, time_zone="Europe/Zurich").next_after(0) is not None
    assert re.search(CRON, cron)


@pytest.mark.parametrize(("cron", "said"), (REFUSED | ONLY_PARSED).items())
def test_what_is_no_cron_line_or_never_fires_is_refused_with_the_reason(cron: str, said: str) -> None:
    with pytest.raises(BadResource, match=said) as caught:
        Timetable(cron=cron, time_zone="UTC")

    assert "30 2 * * *" in caught.value.hint
    assert bool(re.search(CRON, cron)) == (cron in ONLY_PARSED), "a schema refuses what it can"


@pytest.mark.parametrize("zone", ZONES)
def test_a_zone_is_taken(zone: str) -> None:
    assert Timetable(cron="0 3 * * *", time_zone=zone).next_after(0) is not None
    assert re.fullmatch(TIME_ZONE, zone)


@pytest.mark.parametrize("zone", [*NO_ZONES, *ONLY_LOOKED_UP])
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(BadResource, match="not a known time zone") as caught:
        Timetable(cron="0 3 * * *", time_zone=zone)

    assert caught.value.hint == "write it as Europe/Zurich, or UTC"
    assert bool(re.fullmatch(TIME_ZONE, zone)) == (zone in ONLY_LOOKED_UP)


@pytest.fixture
def no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(schedule, "ZoneInfo", zoneinfo.ZoneInfo.no_cache)
    monkeypatch.setitem(__import__("sys").modules, "tzdata", None)
    zoneinfo.reset_tzpath(to=[str(tmp_path)])
    yield
    zoneinfo.reset_tzpath()


def test_utc_needs_no_database(no_database: None) -> None:
    assert Timetable(cron="0 3 * * *", time_zone="UTC").next_after(0) == 3 * 3_600_000
    with pytest.raises(BadResource, match="Zurich") as caught:
        Timetable(cron="0 3 * * *", time_zone="Europe/Zurich")
    assert "install tzdata" in caught.value.hint
