"""Retention from the plan to the store: what stays comes back whole, what nobody needs goes."""

from __future__ import annotations

import random

import pytest

from offsite.model.clock import SystemClock
from offsite.model.errors import IncarnationUnclear
from offsite.model.topic_choices import OLDEST
from offsite.overview.contents import show_backup
from offsite.points.restore_point import PointRequest, find_point
from offsite.repository import catalog
from offsite.upkeep.collection.run import collect, plan_collection
from offsite.upkeep.retention.apply import apply_retention, plan_retention
from offsite.upkeep.retention.pins import pin_point
from offsite.upkeep.retention.policy import RetentionPolicy, parse_policy
from tests.inline_runner import InlineRunner
from tests.worlds.retention.retained import DAY_MS, HOUR_MS, Retained

MIRROR = RetentionPolicy()


@pytest.fixture(autouse=True)
def _catalogs_come_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 3)


def let_go(made: Retained, policy: RetentionPolicy) -> int:
    """Apply `policy`; how many points went. That its source rested for long is no step of a clock here."""
    plan = plan_retention(made.backup, policy, clock=made.clock)
    done = apply_retention(made.backup, plan, clock=made.clock, force=bool(plan.clock_step))
    if done.commit is not None:
        made.note(done.state)
    return done.plan.points


def collect_all(made: Retained) -> int:
    for _ in range(4):
        made.note(made.commit())
    plan = plan_collection(made.backup, clock=SystemClock(), grace_ms=0)
    return collect(made.backup, plan, runner=InlineRunner()).objects


def test_a_backup_mirrors_what_its_topics_let_go() -> None:
    made = Retained(retention_ms=27 * HOUR_MS)
    made.make("a")
    for n in range(10):
        made.write("a")
        made.later(6 * HOUR_MS)
        made.trim("a", 10 * (n - 3))
        made.commit()
    assert let_go(made, MIRROR) == 8
    made.check()
    state = made.backup.state()
    assert state.segments[made.partition("a")].start == 50
    assert collect_all(made) > 0
    made.check()
    assert let_go(made, MIRROR) == 0


def test_what_the_source_still_holds_stays_whatever_a_setting_says() -> None:
    made = Retained(retention_ms=1)
    made.make("a")
    for _ in range(5):
        made.write("a")
        made.later(DAY_MS)
        made.commit()
    assert let_go(made, MIRROR) == 0


def test_all_within_an_age_and_one_a_day_before() -> None:
    made = Retained()
    made.make("a")
    for n in range(40):
        made.write("a")
        made.later(6 * HOUR_MS)
        made.trim("a", 10 * (n - 2))
        made.commit()
    policy = parse_policy(keep_age="1d", keep_daily=5)
    assert let_go(made, policy) > 20
    made.check()
    lines = list(made.backup.state().history)
    days = {line.committed_at_ms // DAY_MS for line in lines}
    assert len(days) == 5
    collect_all(made)
    made.check()


@pytest.mark.parametrize("number", range(10))
def test_random_histories(number: int) -> None:
    drawn = random.Random(number)
    made = Retained(retention_ms=drawn.choice((None, HOUR_MS, DAY_MS, 3 * DAY_MS)))
    made.make("a", 2)
    policies = (
        MIRROR,
        parse_policy(keep_age="1d"),
        parse_policy(keep_age="12h", keep_daily=3, keep_weekly=2),
        parse_policy(keep_hourly=3, keep_monthly=2),
        parse_policy(max_bytes="2kB"),
        parse_policy(keep_daily=4, max_bytes="3kB"),
    )
    for _ in range(drawn.randint(5, 40)):
        _happen(made, drawn)
        if drawn.random() < 0.15 and made.truth:
            let_go(made, drawn.choice(policies))
            made.check()
    made.commit()
    policy = drawn.choice(policies)
    let_go(made, policy)
    made.check()
    if policy is not MIRROR:
        assert made.unneeded() == []
    collect_all(made)
    made.check()


def _happen(made: Retained, drawn: random.Random) -> None:
    made.later(drawn.choice((1000, HOUR_MS, 5 * HOUR_MS, DAY_MS)))
    topic = drawn.choice("ab")
    if topic not in made.shapes:
        made.make(topic, drawn.randint(1, 2))
    number = drawn.randrange(made.shapes[topic].partitions)
    log = made.logs[made.partition(topic, number)]
    what = drawn.random()
    if what < 0.5:
        made.write(topic, drawn.randint(1, 3), number=number)
    elif what < 0.7:
        made.trim(topic, drawn.choice([*log.batches, log.end]), number=number)
    elif what < 0.78:
        starts = [s.start for s in made.backup.state().segments.get(made.partition(topic, number), ())]
        if starts := [start for start in starts if start >= log.start]:
            made.cut(topic, drawn.choice(starts), number=number)
    elif what < 0.82:
        made.delete(topic)
    if drawn.random() < 0.7:
        made.commit(incomplete=drawn.random() < 0.2)


def test_who_asks_for_an_earlier_topic_of_the_name_is_told_what_was_let_go_of_it() -> None:
    """No point needs it any more; an empty topic, or its end alone, must not pass for what it held."""
    made = Retained()
    made.make("a")
    for _ in range(3):
        made.write("a")
        made.commit()
    made.make("a")
    for _ in range(3):
        made.later(DAY_MS)
        made.write("a")
        made.commit()
    let_go(made, parse_policy(keep_age="1d"))
    point = find_point(made.backup, PointRequest(incarnations={"a": OLDEST}))
    assert not point.state.segments
    assert [(each.partition_id.topic_id, each.start, each.end) for each in point.state.holes] == [("id-1", 0, 30)]
    assert find_point(made.backup, PointRequest()).state.holes == ()


def test_a_time_that_may_mean_an_earlier_topic_is_unclear_also_when_that_was_let_go() -> None:
    """Both hold records of all times. That the earlier one holds none any more makes none of them a later topic's."""
    made = Retained()
    made.make("a")
    for _ in range(3):
        made.write("a")
        made.later(DAY_MS)
        made.commit()
    then = PointRequest(at=str(made.store.clock.now_ms() - DAY_MS))
    made.make("a")
    for _ in range(3):
        made.later(DAY_MS)
        made.write("a")
        made.commit()
    with pytest.raises(IncarnationUnclear, match="records of the same times"):
        find_point(made.backup, then)
    let_go(made, parse_policy(keep_age="1d"))
    with pytest.raises(IncarnationUnclear, match="the backup deleted the records of the older one"):
        find_point(made.backup, then)


def test_a_point_that_is_left_knows_only_of_points_that_are_left() -> None:
    """Who asks for the groups of a time before it, or looks at it, must not be sent to one that is gone."""
    made = Retained()
    made.make("a")
    for _ in range(6):
        made.write("a")
        made.later(DAY_MS)
        made.trim("a", made.logs[made.partition("a")].copied)
        made.commit()
    pin_point(made.backup, 2, reason="r")
    pin_point(made.backup, 4, reason="r")
    let_go(made, parse_policy(keep_age="0s"))
    state = made.backup.state_at(4)
    assert [line.seq for line in state.history] == [2, 4]
    before = state.history.latest_at(state.committed_at_ms - 1)
    assert before is not None
    assert made.backup.state_at(before.seq).seq == 2
    assert [line.seq for line in show_backup(made.backup, commit=4).restore_points] == [2, 4]
