"""What a backup lets go that mirrors its topics: what they let go themselves, by age and size, and no more."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from offsite.model.cleanup_policy import UNLIMITED, KeepLimits, Retention
from offsite.model.errors import DamagedObject
from offsite.repository.catalogs.partition_table import state_from_json, state_to_json
from offsite.repository.commit import TopicShape
from offsite.repository.json_form import NEWEST_FORMAT, encode_object, parse_json_object
from offsite.repository.state import BackupState
from offsite.upkeep.deletion import run_to_end
from offsite.upkeep.retention.apply import plan_retention
from offsite.upkeep.retention.mirror import (
    ExpiringRanges,
    StoredPartition,
    find_needing_expired,
    limits_now,
    limits_then,
)
from offsite.upkeep.retention.needs import Branches, LivePartitions
from offsite.upkeep.retention.policy import RetentionPolicy
from tests.worlds.retention.retained import DAY_MS, HOUR_MS, Retained

MIRROR = RetentionPolicy()


def shape(**configs: str) -> TopicShape:
    named = tuple((name.replace("_", "."), value) for name, value in configs.items())
    return TopicShape(topic="a", topic_id="x", partitions=1, replication_factor=1, configs=named)


def stored(made: Retained, *, goes_on: bool = True, gone_ms: int = 0) -> StoredPartition:
    state, known = made.backup.state(), made.partition("a")
    return StoredPartition(
        segments=tuple(state.segments[known]), position=state.positions[known] if goes_on else None, deleted_ms=gone_ms
    )


@pytest.fixture
def made() -> Retained:
    """Six segments of ten offsets, an hour between them; the source holds the last two."""
    made = Retained()
    made.make("a")
    for _ in range(6):
        made.write("a")
        made.later(HOUR_MS)
        made.commit()
    made.trim("a", 40)
    made.commit()
    return made


def test_a_segment_goes_when_its_newest_record_is_too_old_and_the_source_let_go_of_it(made: Retained) -> None:
    found, now_ms = stored(made), made.store.clock.now_ms()
    times = [each.timestamp_max_ms for each in found.segments]
    for keep in range(6):
        limits = KeepLimits(keep_ms=now_ms - times[keep])
        assert found.expired_below(limits, now_ms=now_ms) == min(10 * keep, 40)
    assert found.expired_below(KeepLimits(), now_ms=10**15) == 0


def test_by_size_the_oldest_goes_while_enough_stays_behind_it(made: Retained) -> None:
    found = stored(made)
    behind = [sum(each.raw_bytes for each in found.segments[at:]) for at in range(7)]
    for kept, below in ((0, 40), (behind[4], 40), (behind[4] + 1, 30), (behind[1], 10), (behind[1] + 1, 0)):
        assert found.expired_below(KeepLimits(keep_bytes=kept), now_ms=0) == below


def test_the_newest_segment_of_a_log_that_goes_on_is_never_too_old(made: Retained) -> None:
    made.trim("a", 60)
    made.commit()
    assert stored(made).expired_below(KeepLimits(keep_ms=0), now_ms=10**15) == 50
    assert stored(made, goes_on=False).expired_below(KeepLimits(keep_ms=0), now_ms=10**15) == 60


def test_of_a_topic_that_is_gone_all_stays_for_its_retention(made: Retained) -> None:
    gone_ms = made.store.clock.now_ms() + 100
    found = stored(made, goes_on=False, gone_ms=gone_ms)
    assert found.expired_below(KeepLimits(keep_ms=DAY_MS), now_ms=gone_ms + DAY_MS) == 0
    assert found.expired_below(KeepLimits(keep_ms=DAY_MS), now_ms=gone_ms + DAY_MS + 1) == 60


def test_records_without_a_time_let_nothing_go_by_age(made: Retained) -> None:
    found = stored(made)
    nameless = replace(found, segments=[replace(each, timestamp_max_ms=-1) for each in found.segments])
    assert nameless.expired_below(KeepLimits(keep_ms=0), now_ms=10**15) == 0


def test_limits_are_those_that_are_known() -> None:
    assert limits_now(shape(), {}) == KeepLimits()
    assert limits_now(shape(retention_ms="5", retention_bytes="7"), {}) == KeepLimits(keep_ms=5, keep_bytes=7)
    assert limits_now(shape(retention_ms="5", cleanup_policy="compact"), {}) == KeepLimits()
    assert limits_now(shape(retention_ms="5", cleanup_policy="compact,delete"), {}) == KeepLimits(keep_ms=5)
    assert limits_now(replace(shape(retention_ms="5"), configs_unread=True), {}) == KeepLimits()
    told = {"a": Retention(cleanup_policy="delete", retention_ms=9, retention_bytes=UNLIMITED)}
    assert limits_now(shape(), told) == KeepLimits(keep_ms=9)
    assert limits_now(replace(shape(), configs_unread=True), told) == KeepLimits(keep_ms=9)
    assert limits_then(shape()).keep_ms == 7 * DAY_MS
    assert KeepLimits(keep_ms=5).longer_of_both(KeepLimits(keep_ms=9, keep_bytes=1)) == KeepLimits(keep_ms=9)


def test_a_retention_that_was_shortened_empties_no_backup(made: Retained) -> None:
    """By mistake or by malice: what a restore point promised when it was made counts as well."""
    made.shapes["a"] = replace(made.shapes["a"], configs=(("retention.ms", "1"),))
    made.trim("a", 60)
    made.commit()
    made.later(DAY_MS // 2)
    made.write("a")
    made.commit()
    plan = plan_retention(made.backup, MIRROR, clock=made.clock)
    assert [each.first for each in plan.kept_points] == [1, 9]
    made.later(DAY_MS)
    made.write("a")
    made.commit()
    plan = plan_retention(made.backup, MIRROR, clock=made.clock)
    assert [each.first for each in plan.kept_points] == [8, 10]


def test_a_default_of_the_cluster_lets_nothing_go_until_it_is_told() -> None:
    made = Retained(retention_ms=None)
    made.make("a")
    for n in range(4):
        made.write("a")
        made.later(8 * DAY_MS)
        made.trim("a", 10 * n)
        made.commit()
    plan = plan_retention(made.backup, MIRROR, clock=made.clock)
    assert (plan.is_empty, len(plan.notes)) == (True, 1)
    told = {"a": Retention(cleanup_policy="delete", retention_ms=DAY_MS, retention_bytes=UNLIMITED)}
    plan = plan_retention(made.backup, MIRROR, clock=made.clock, cluster_retention=told)
    assert (plan.points, plan.notes) == (3, ())


def test_what_the_cluster_tells_is_not_said_of_the_topic_that_had_the_name_before() -> None:
    made = Retained(retention_ms=None)
    made.make("a")
    made.write("a")
    made.commit()
    made.make("a")
    for n in range(3):
        made.write("a")
        made.later(8 * DAY_MS)
        made.trim("a", 10 * n)
        made.commit()
    told = {"a": Retention(cleanup_policy="delete", retention_ms=DAY_MS, retention_bytes=UNLIMITED)}
    expiring = ExpiringRanges(head=made.backup.state(), now_ms=made.clock.now_ms(), cluster_retention=told)
    assert {each.topic_id for each in expiring.partitions} == {"id-2"}


def test_what_a_person_deleted_of_a_topic_stays_until_its_retention_is_over(made: Retained) -> None:
    """The source holds it no more, and no point that is left needs it: its age has not come all the same."""
    made.trim("a", 60)
    made.commit()
    plan = plan_retention(made.backup, MIRROR, clock=made.clock)
    assert plan.is_empty


def test_commits_of_topics_that_were_empty_go_with_the_next_that_goes() -> None:
    made = Retained()
    made.make("a")
    for _ in range(3):
        made.commit()
    for n in range(4):
        made.write("a")
        made.later(DAY_MS)
        made.trim("a", 10 * (n - 1))
        made.commit()
    plan = plan_retention(made.backup, MIRROR, clock=made.clock)
    assert plan.forgotten[0][0] == 1
    assert made.backup.state().seq == 7


@pytest.mark.parametrize("number", range(40))
def test_the_search_finds_what_asking_each_point_finds(number: int) -> None:
    drawn = random.Random(number)
    made = Retained(retention_ms=drawn.choice((HOUR_MS, DAY_MS)))
    for _ in range(drawn.randint(2, 40)):
        topic = drawn.choice("abc")
        if topic not in made.shapes or drawn.random() < 0.05:
            made.make(topic)
        log = made.logs[made.partition(topic)]
        made.write(topic, drawn.randint(0, 3))
        if drawn.random() < 0.5:
            made.trim(topic, drawn.choice([*log.batches, log.end]))
        made.later(drawn.choice((1000, HOUR_MS, 10 * HOUR_MS)))
        made.commit()
    head = made.backup.state()
    states = {line.seq: made.backup.catalog.state(upto=line.seq) for line in head.history}
    read: list[int] = []

    def state(seq: int) -> BackupState:
        read.append(seq)
        return states[seq]

    expiring = ExpiringRanges(head=head, now_ms=made.clock.now_ms())
    found = run_to_end(find_needing_expired(head.history, expiring, state))
    told = {seq for start, end in found for seq in range(start, end)}
    truth = {seq for seq, each in states.items() if _needs(expiring, each)}
    first = min(truth, default=0)
    empty = {seq for seq in range(1, first) if first - 1 >= seq and not states[first - 1].segments}
    assert told == truth | empty
    assert len(read) == len(set(read))


def _needs(expiring: ExpiringRanges, state: BackupState) -> bool:
    alive, branches = LivePartitions(state), Branches.of(expiring.head)
    for known, position in state.positions.items():
        history = branches.history_at(known, state.seq)
        below = expiring.below(history, limits_then(state.topics[known.incarnation]))
        held = expiring.stored(history).start
        if known in alive and position.log_start < min(position.end, below) and held < position.end:
            return True
    return False


def test_of_many_points_few_are_looked_at() -> None:
    made = Retained()
    made.make("a")
    for n in range(120):
        made.write("a")
        made.later(HOUR_MS)
        made.trim("a", 10 * (n - 30))
        made.commit()
    head = made.backup.state()
    read: list[int] = []

    def state(seq: int) -> BackupState:
        read.append(seq)
        return made.backup.catalog.state(upto=seq)

    found = run_to_end(find_needing_expired(head.history, ExpiringRanges(head=head, now_ms=made.clock.now_ms()), state))
    assert [span[0] for span in found] == [1]
    assert len(read) <= 10
    assert (
        run_to_end(
            find_needing_expired(head.history, ExpiringRanges(head=head, now_ms=made.clock.now_ms()), state, most=3)
        )
        != found
    )


def test_points_of_a_while_in_which_the_setting_was_longer_keep_what_they_promised(made: Retained) -> None:
    """Between points that go: what was promised for them is looked at, not taken from their neighbours."""
    shorter, longer = made.shapes["a"], replace(made.shapes["a"], configs=(("retention.ms", str(90 * DAY_MS)),))
    before = made.backup.state().seq
    for shape, commits in ((shorter, 1), (longer, 2), (shorter, 20)):
        made.shapes["a"] = shape
        for _ in range(commits):
            made.write("a")
            made.commit()
    made.later(2 * DAY_MS)
    made.write("a")
    made.trim("a", 290)
    made.commit()
    plan = plan_retention(made.backup, MIRROR, clock=made.clock)
    assert [(each.first, each.last) for each in plan.kept_points] == [
        (before + 2, before + 3),
        (before + 24, before + 24),
    ]


@pytest.mark.parametrize("is_old", [False, True])
def test_a_catalog_says_since_when_topics_have_their_settings(made: Retained, *, is_old: bool) -> None:
    """One of an earlier version does not: then it is known since that catalog."""
    state = made.backup.state()
    told = json.loads(json.dumps(state_to_json(state)))
    if is_old:
        for each in told["topics"]:
            del each["configs_since"]
    read = state_from_json(
        parse_json_object(encode_object(told), source="here", damaged=DamagedObject, newest=NEWEST_FORMAT)
    )
    assert set(state.configs_since.values()) == {1}
    assert set(read.configs_since.values()) == {state.seq if is_old else 1}
