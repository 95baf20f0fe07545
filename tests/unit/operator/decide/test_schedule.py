"""Times of schedules: each is decided once, over any looks, restarts, clock steps and changes of the clock."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.jobs.status import JobState
from offsite.model.errors import BadResource
from offsite.operator.decide.schedule import (
    AHEAD_MS,
    DecisionKind,
    DesiredSchedule,
    ObservedSchedule,
    TimeDecision,
    Timetable,
    build_command,
    decide_time,
    next_time,
    resolve_schedule,
)
from offsite.operator.resources.jobs import Schedule
from offsite.operator.resources.parse import parse_resource
from tests.examples import examples

ZONES = ("Europe/Zurich", "America/New_York", "UTC")
CHANGES = tuple(
    int(datetime(*day, tzinfo=UTC).timestamp() * 1000)
    for day in [(2026, 3, 8), (2026, 3, 29), (2026, 10, 25), (2026, 11, 1), (2026, 6, 1)]
)
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def schedule(**spec: object) -> DesiredSchedule:
    found = parse_resource(
        {
            "apiVersion": "offsite.dev/v1alpha1",
            "kind": "Schedule",
            "metadata": {"name": "nightly", "uid": "ssssssss-1"},
            "spec": {"backup": "shop", "action": "drill", "cron": "30 2 * * *", **spec},
        },
        source="test",
    )
    assert isinstance(found, Schedule)
    return resolve_schedule(found)


def daily(hour: int, minute: int, zone: str, start_ms: int, end_ms: int) -> list[int]:
    """When that time of the day is, told without any cron: what is left out comes right behind, what is twice once."""
    first = datetime.fromtimestamp(start_ms / 1000, tz=UTC).date() - timedelta(days=2)
    days = (first + timedelta(days=number) for number in range((end_ms - start_ms) // DAY + 5))
    found = (_instant(day, hour, minute, ZoneInfo(zone)) for day in days)
    return [each for each in found if start_ms < each <= end_ms]


def _instant(day: date, hour: int, minute: int, zone: ZoneInfo) -> int:
    wall = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
    while wall.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall.replace(tzinfo=None):
        wall += timedelta(minutes=1)
    return int(wall.timestamp() * 1000)


@given(
    st.sampled_from(ZONES),
    st.integers(0, 23),
    st.integers(0, 59),
    st.sampled_from(CHANGES),
    st.integers(-3 * DAY, 3 * DAY),
)
@examples(150)
def test_a_time_of_the_day_comes_once_each_day_also_where_the_clock_changes(
    zone: str, hour: int, minute: int, around_ms: int, shift_ms: int
) -> None:
    start_ms = around_ms + shift_ms
    end_ms = start_ms + 5 * DAY
    timetable = Timetable(cron=f"{minute} {hour} * * *", time_zone=zone)
    assert list(timetable.after(start_ms, until_ms=end_ms)) == daily(hour, minute, zone, start_ms, end_ms)


@pytest.mark.slow
@given(st.sampled_from(ZONES), st.sampled_from(CHANGES), st.integers(-DAY, DAY))
@examples(60)
def test_every_quarter_of_an_hour_is_real_time(zone: str, around_ms: int, shift_ms: int) -> None:
    start_ms = around_ms + shift_ms
    quarter = 15 * MINUTE
    expected = list(range((start_ms // quarter + 1) * quarter, start_ms + 2 * DAY, quarter))
    found = Timetable(cron="*/15 * * * *", time_zone=zone).after(start_ms, until_ms=start_ms + 2 * DAY - 1)
    assert list(found) == expected


class Line:
    """Decisions, kept as an operator would; `lost` looks decide on what was before."""

    def __init__(self, wanted: DesiredSchedule, now_ms: int) -> None:
        self.wanted, self.decided = wanted, list[TimeDecision]()
        self.look(now_ms)

    def look(self, now_ms: int, *, suspend: bool = False, running: JobState | None = None) -> TimeDecision | None:
        newest = self.decided[-1] if self.decided else None
        seen = ObservedSchedule(newest=newest, running=running, is_unasked=False, now_ms=now_ms)
        found = decide_time(replace(self.wanted, suspend=suspend), seen)
        if found is not None:
            assert newest is None or found.time_ms > newest.time_ms, "a time was decided again"
            self.decided.append(found)
        return found

    def of(self, *kinds: DecisionKind) -> list[TimeDecision]:
        return [each for each in self.decided if each.kind in kinds]


@given(st.sampled_from(ZONES), st.sampled_from(CHANGES), st.integers(0, 10**9))
@examples(80)
def test_with_looks_that_are_near_each_other_every_time_fires_exactly_once(
    zone: str, around_ms: int, seed: int
) -> None:
    rng = random.Random(seed)
    hour, minute = rng.randint(0, 23), rng.randint(0, 59)
    start_ms = now_ms = around_ms - 2 * DAY
    line = Line(schedule(cron=f"{minute} {hour} * * *", timeZone=zone, startingDeadline="12h"), start_ms)
    while now_ms < around_ms + 3 * DAY:
        now_ms += rng.randint(1, 50 * MINUTE)
        stepped_ms = now_ms - rng.choice([0, 0, 0, rng.randint(0, AHEAD_MS)])  # the clock steps back, and again on
        line.look(stepped_ms)
    line.look(now_ms)
    fired = line.of(DecisionKind.FIRED)
    assert [each.time_ms for each in fired] == daily(hour, minute, zone, start_ms, now_ms)
    assert all(each.left_out == 0 for each in fired)


@given(st.sampled_from(ZONES), st.sampled_from(CHANGES), st.integers(0, 10**9))
@examples(80)
def test_over_any_looks_each_time_is_decided_once_or_told_as_left_out(zone: str, around_ms: int, seed: int) -> None:
    rng = random.Random(seed)
    start_ms = now_ms = around_ms - 5 * DAY
    line = Line(schedule(cron="10 */6 * * *", timeZone=zone, startingDeadline="2h"), start_ms)
    for _ in range(40):
        now_ms += rng.choice([rng.randint(1, HOUR), rng.randint(1, 12 * HOUR), rng.randint(1, 3 * DAY)])
        found = line.look(now_ms, running=rng.choice([None, JobState.RUNNING, JobState.LOST]))
        assert found is None or found.kind is not DecisionKind.FIRED or now_ms - found.time_ms <= 2 * HOUR
    expected = list(line.wanted.timetable.after(start_ms, until_ms=now_ms))
    runs = line.of(DecisionKind.FIRED, DecisionKind.SKIPPED, DecisionKind.MISSED)
    assert {each.time_ms for each in runs} <= set(expected)
    assert sum(1 + each.left_out for each in runs) == len(expected)


def test_what_was_due_while_it_was_suspended_is_not_made_up_for() -> None:
    line = Line(schedule(cron="0 * * * *"), CHANGES[4])
    line.look(CHANGES[4] + 30 * MINUTE, suspend=True)
    line.look(CHANGES[4] + 5 * HOUR, suspend=True)
    line.look(CHANGES[4] + 5 * HOUR + MINUTE)
    assert (line.decided[-1].kind, line.decided[-1].left_out) == (DecisionKind.RESUMED, 5)
    found = line.look(CHANGES[4] + 6 * HOUR + MINUTE)
    assert found == TimeDecision(time_ms=CHANGES[4] + 6 * HOUR, kind=DecisionKind.FIRED, timetable="0 * * * * UTC")


def test_what_could_not_begin_in_time_is_left_out() -> None:
    line = Line(schedule(cron="0 0 * * *", startingDeadline="30m"), CHANGES[4])
    found = line.look(CHANGES[4] + 2 * DAY + HOUR)
    assert found is not None
    assert (found.time_ms, found.kind, found.left_out) == (CHANGES[4] + 2 * DAY, DecisionKind.MISSED, 1)


def test_the_next_one_is_skipped_while_one_runs() -> None:
    line = Line(schedule(cron="0 * * * *"), CHANGES[4])
    assert line.look(CHANGES[4] + HOUR) is not None
    found = line.look(CHANGES[4] + 2 * HOUR, running=JobState.RUNNING)
    assert found is not None
    assert found.kind is DecisionKind.SKIPPED


@pytest.mark.parametrize("change", [{"cron": "50 * * * *"}, {"cron": "*/2 * * * *"}, {"timeZone": "Asia/Kolkata"}])
def test_another_timetable_begins_where_it_is_seen_first(change: dict[str, object]) -> None:
    line = Line(schedule(cron="0 0 * * *", startingDeadline="1d"), CHANGES[4] + 2 * MINUTE)
    line.wanted = schedule(**{"cron": "0 0 * * *", "startingDeadline": "1d", **change})
    now_ms = CHANGES[4] + 23 * HOUR + 55 * MINUTE
    found = line.look(now_ms)
    assert (found and found.kind, line.of(DecisionKind.FIRED, DecisionKind.MISSED)) == (DecisionKind.STARTED, [])
    assert line.look(now_ms + 1) is None
    due_ms = line.wanted.timetable.next_after(now_ms)
    assert due_ms is not None
    assert line.look(due_ms + MINUTE) is not None
    assert [each.time_ms for each in line.of(DecisionKind.FIRED)] == [due_ms]


def test_a_clock_that_was_a_year_ahead_once_silences_nothing() -> None:
    line = Line(schedule(cron="0 * * * *"), CHANGES[4])
    line.decided.append(TimeDecision(time_ms=CHANGES[4] + 365 * DAY, kind=DecisionKind.FIRED))
    seen = ObservedSchedule(newest=line.decided[-1], running=None, is_unasked=False, now_ms=CHANGES[4] + MINUTE)
    found = decide_time(line.wanted, seen)
    assert found is not None
    assert (found.kind, found.time_ms) == (DecisionKind.STARTED, seen.now_ms)
    assert next_time(line.wanted, seen) == CHANGES[4] + HOUR
    line.decided.append(found)
    assert line.look(CHANGES[4] + HOUR) is not None
    assert line.decided[-1].kind is DecisionKind.FIRED


def test_what_is_due_while_nothing_may_run_is_skipped_with_the_reason() -> None:
    wanted = schedule(cron="0 * * * *")
    newest = TimeDecision(time_ms=CHANGES[4], kind=DecisionKind.STARTED)
    seen = ObservedSchedule(newest=newest, running=None, is_unasked=False, now_ms=CHANGES[4] + HOUR, reason="paused")
    found = decide_time(wanted, seen)
    assert found is not None
    assert (found.kind, found.reason) == (DecisionKind.SKIPPED, "paused")


def test_a_schedule_tells_when_it_fires_next() -> None:
    wanted = schedule(cron="30 2 * * *", timeZone="Europe/Zurich")
    seen = ObservedSchedule(newest=None, running=None, is_unasked=False, now_ms=CHANGES[1] - HOUR)
    assert next_time(wanted, seen) == CHANGES[1] + HOUR  # 02:30 is left out that day: 03:00 in Zurich
    assert next_time(replace(wanted, suspend=True), seen) is None


@pytest.mark.parametrize(
    "cron",
    [
        "* * * * * *",
        "61 * * * *",
        "a b c d e",
        "0 0 30 2 *",
        "* * * *     ",
        "*/0 * * * *",
        "0 0 * * 9",
        "L L L L L",
        "0 0 L-1 * *",
        "\0 * * * *",
        "0 0 * * #",
        "- - - - -",
        "\u0661 * * * *",
        "0 0 * * ²L",
        "*/L * * * *",
        "0 0 1#1 * *",
        "0 0 * * 1#1/2",
        "0 0 L/2,L * *",
    ],
)
def test_a_cron_that_cannot_be_read_is_refused_and_nothing_else_happens(cron: str) -> None:
    try:
        wanted = schedule(cron=cron)
    except BadResource:
        return
    next_time(wanted, ObservedSchedule(newest=None, running=None, is_unasked=False, now_ms=CHANGES[4]))


@given(st.text(alphabet="0123456789*/,-L#W? ABCMON\u0661", min_size=9, max_size=30))
@examples(300)
def test_any_text_for_a_cron_is_read_or_refused(cron: str) -> None:
    try:
        wanted = schedule(cron=cron)
    except BadResource:
        return
    next_time(wanted, ObservedSchedule(newest=None, running=None, is_unasked=False, now_ms=CHANGES[4]))


@pytest.mark.parametrize(
    "zone", ["Nowhere/Land", "../../etc/passwd", "/etc/localtime", "Europe", "\0", "europe zurich"]
)
def test_a_time_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(BadResource):
        schedule(timeZone=zone)


def test_the_commands_of_runs() -> None:
    assert build_command(schedule(action="checkpoint"), "shop-1") == ("checkpoint", "take", "--backup=shop-1", "--wait")
    drill = ("restore", "drill", "--backup=shop-1", "--topics=orders")
    assert build_command(schedule(topics=["orders"]), "shop-1") == (*drill, "--sandbox")
    assert build_command(schedule(topics=["orders"], cluster="test"), "shop-1") == drill
