"""A run that reads a compacted topic after brokers may have removed tombstones says so, and every restore after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from offsite.backup.late_reads import has_missing_offsets, last_read_ms
from offsite.backup.pass_commits import PassMemory
from offsite.backup.plan import BackupPlan
from offsite.cli.commands.repository import _render_detail
from offsite.cli.views.backup import render_result
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.model.clock import Stopwatch, SystemClock
from offsite.overview.contents import show_backup
from offsite.overview.status import read_status
from offsite.repository import catalog
from offsite.repository.commit import TopicShape
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.restore.plan_report import report_plan
from tests.batches import RECORDS_PER_BATCH, make_batch, make_control_batch
from tests.fake_cluster.cluster import DENIED, TOPIC_DEFAULTS
from tests.fake_cluster.site import Site
from tests.shown import shown
from tests.unit.backup.conftest import put
from tests.unit.backup.test_status_of_passes import die_amid

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
TOLD = "a restore may bring back keys of users"


def late_of(site: Site) -> list[tuple[str, int, int]]:
    return [
        (shape.topic, shape.late.partitions, shape.late.times)
        for shape in site.backup.state().topics.values()
        if shape.late is not None
    ]


class Longer(SystemClock):
    """A clock that is ahead of the machine's from the second look on."""

    def __init__(self, by_ms: int) -> None:
        self._by_s, self._looks = by_ms / 1000, 0

    def monotonic_s(self) -> float:
        self._looks += 1
        return super().monotonic_s() + (self._by_s if self._looks > 1 else 0)


def lasting(plan: BackupPlan, ms: int) -> BackupPlan:
    """The plan of a run whose ends were read `ms` before its end."""
    return replace(plan, since_read=Stopwatch(Longer(ms)))


def test_a_late_run_with_missing_offsets_says_that_deleted_keys_may_come_back(
    users: Site, pass_ms: Callable[[int], None]
) -> None:
    read_ms = users.backup.state().read_ms
    assert 0 < users.backup.state().committed_at_ms - read_ms < HOUR_MS
    pass_ms(25 * HOUR_MS)
    put(users, 30)
    result = users.back_up()
    (late,) = result.late
    assert (late.topic, late.partitions, late.times, result.complete) == ("users", 1, 1, True)
    assert (late.since_ms, late.until_ms <= result.committed_at_ms) == (read_ms, True)
    assert late.until_ms - late.since_ms >= 25 * HOUR_MS
    text = shown(render_result(result))
    assert TOLD in text
    assert "new backup (another --backup) begins without these keys" in text
    (status,) = read_status(Repository.open(users.repository.store)).backups
    assert status.safe
    assert any("deleted keys of users (" in note for note in status.notes)
    assert TOLD in shown(_render_detail(show_backup(users.backup)))
    assert TOLD not in shown(_render_detail(show_backup(users.backup, commit=1)))


def test_every_restore_from_that_commit_on_says_so_and_none_before(users: Site, pass_ms: Callable[[int], None]) -> None:
    pass_ms(25 * HOUR_MS)
    put(users, 30)
    users.back_up()
    put(users, 40)
    assert users.back_up().late == ()
    notes = {seq: report_plan(users.plan_restore(commit=seq)).notes for seq in (1, 2, 3)}
    assert [sum(TOLD in note for note in notes[seq]) for seq in (1, 2, 3)] == [0, 1, 1]
    assert sum(TOLD in note for note in users.restore().notes) == 1


def test_a_run_in_time_says_nothing(users: Site, pass_ms: Callable[[int], None]) -> None:
    pass_ms(23 * HOUR_MS)
    put(users, 30)
    assert users.back_up().late == ()
    pass_ms(23 * HOUR_MS)
    put(users, 50)
    assert users.back_up().late == ()
    assert late_of(users) == []


def test_a_late_run_that_misses_no_offset_says_nothing(users: Site, pass_ms: Callable[[int], None]) -> None:
    pass_ms(25 * HOUR_MS)
    put(users, RECORDS_PER_BATCH)
    assert users.back_up().late == ()


def test_a_topic_that_was_never_compacted_is_not_judged_and_its_commits_have_no_new_fields(
    site: Site, pass_ms: Callable[[int], None]
) -> None:
    site.source.make_topic("orders")
    put(site, 0, topic="orders")
    site.back_up("orders")
    pass_ms(25 * HOUR_MS)
    put(site, 30, topic="orders")
    assert site.back_up().late == ()
    assert site.backup.state().read_ms == 0
    keys = [info.key for info in site.repository.store.list("backups/") if "/commits/" in info.key]
    texts = [site.repository.store.get(key) or b"" for key in keys]
    assert len(texts) == 2
    assert not any(name in text for text in texts for name in (b"read_ago_ms", b"read_ms", b'"late"'))


@pytest.mark.parametrize("whose", ["topic", "broker", "earlier", "unreadable"])
def test_the_shortest_known_stay_of_tombstones_counts(
    site: Site, pass_ms: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    topic = site.source.make_topic("users", cleanup_policy="compact")
    if whose == "broker":
        monkeypatch.setitem(TOPIC_DEFAULTS, "delete.retention.ms", str(MINUTE_MS))
    else:
        topic.configs["delete.retention.ms"] = str(MINUTE_MS)
    put(site, 0)
    site.back_up("users")
    if whose == "earlier":
        del topic.configs["delete.retention.ms"]
    if whose == "unreadable":
        site.source.forbidden["users"] = {10}
    pass_ms(2 * MINUTE_MS)
    put(site, 30)
    assert len(site.back_up().late) == 1


def test_the_newest_late_read_is_kept_and_how_often_it_happened(users: Site, pass_ms: Callable[[int], None]) -> None:
    times = []
    for base in (30, 60):
        pass_ms(25 * HOUR_MS)
        put(users, base)
        (late,) = users.back_up().late
        times.append((late.times, late.since_ms))
    assert [count for count, _ in times] == [1, 2]
    assert times[1][1] - times[0][1] >= 25 * HOUR_MS
    assert late_of(users) == [("users", 1, 2)]


def test_a_hole_may_have_held_tombstones_at_any_time(users: Site) -> None:
    for base in (10, 20, 30):
        put(users, base)
    users.source.topics["users"].partitions[0].delete_before(30)
    result = users.back_up()
    assert len(result.holes) == len(result.late) == 1


def test_a_new_incarnation_has_nothing_older(users: Site, pass_ms: Callable[[int], None]) -> None:
    pass_ms(25 * HOUR_MS)
    users.source.remake_topic("users")
    put(users, 0)
    put(users, 30)
    assert users.back_up().late == ()


def test_a_partition_that_was_left_behind_was_not_read(users: Site, pass_ms: Callable[[int], None]) -> None:
    users.source.make_topic("more", cleanup_policy="compact")
    put(users, 0, topic="more")
    users.back_up()
    users.source.failing[Api.FETCH, TopicPartition(topic="users", partition=0)] = DENIED
    for base in (30, 60):
        pass_ms(15 * HOUR_MS)
        put(users, base)
        assert [failure.topic for failure in users.back_up().failed] == ["users"]
    users.source.failing.clear()
    put(users, 30, topic="more")
    assert [(late.topic, late.times) for late in users.back_up().late] == [("users", 1)]
    put(users, 90)
    assert users.back_up().late == ()
    assert all(shape.read_ms == 0 for shape in users.backup.state().topics.values())


def test_a_hidden_topic_was_not_read(users: Site, pass_ms: Callable[[int], None]) -> None:
    users.source.make_topic("more", cleanup_policy="compact")
    put(users, 0, topic="more")
    users.back_up()
    users.source.hidden.add("users")
    pass_ms(15 * HOUR_MS)
    users.back_up()
    users.source.hidden.clear()
    pass_ms(15 * HOUR_MS)
    put(users, 30)
    put(users, 30, topic="more")
    assert [late.topic for late in users.back_up().late] == ["users"]


def test_the_reading_of_the_ends_counts_and_not_the_end_of_the_pass(site: Site, pass_ms: Callable[[int], None]) -> None:
    site.source.make_topic("users", cleanup_policy="compact")
    put(site, 0)
    site.carry_out(lasting(site.plan_backup("users"), 10 * HOUR_MS))
    pass_ms(15 * HOUR_MS)
    put(site, 30)
    (late,) = site.back_up().late
    assert late.until_ms - late.since_ms >= 25 * HOUR_MS


@pytest.mark.parametrize(("hours", "is_late"), [(23, False), (25, True)])
def test_a_first_pass_is_bound_to_the_same_time(site: Site, *, hours: int, is_late: bool) -> None:
    site.source.make_topic("users", cleanup_policy="compact")
    put(site, 0)
    put(site, 30)
    site.carry_out(lasting(site.plan_backup("users"), hours * HOUR_MS))
    assert bool(late_of(site)) is is_late


def test_a_following_run_remembers_rounds_without_a_commit(users: Site, pass_ms: Callable[[int], None]) -> None:
    memory = PassMemory()
    pass_ms(20 * HOUR_MS)
    users.carry_out(users.plan_backup(), only_news=True, memory=memory)
    assert users.backup.state().seq == 1
    pass_ms(20 * HOUR_MS)
    put(users, 30)
    (quiet,) = memory.quiet.items()
    memory.quiet[quiet[0]] = Stopwatch(Longer(20 * HOUR_MS))
    users.carry_out(users.plan_backup(), only_news=True, memory=memory)
    assert (users.backup.state().seq, late_of(users)) == (2, [])


def test_without_that_memory_the_commit_counts(users: Site, pass_ms: Callable[[int], None]) -> None:
    pass_ms(40 * HOUR_MS)
    put(users, 30)
    users.carry_out(users.plan_backup(), only_news=True)
    assert late_of(users) == [("users", 1, 1)]


def test_a_catalog_remembers_readings_and_late_reads(
    users: Site, pass_ms: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    pass_ms(25 * HOUR_MS)
    put(users, 30)
    users.back_up()
    before = users.backup.state()
    for _ in range(2):
        users.back_up()
    state = users.backup.state()
    assert (late_of(users), state.read_ms > before.read_ms > 0) == ([("users", 1, 1)], True)


def test_commits_of_earlier_versions_tell_the_end_of_their_pass() -> None:
    shape = TopicShape(topic="users", topic_id="", partitions=1, replication_factor=1, was_compacted=True)
    base = BackupState(backup="b", seq=3, committed_at_ms=30)
    assert last_read_ms(base, shape) == 30  # a first pass under way
    assert last_read_ms(replace(base, completed_at_ms=20), shape) == 20
    assert last_read_ms(replace(base, completed_at_ms=20, read_ms=10), shape) == 10
    assert last_read_ms(replace(base, completed_at_ms=20, read_ms=10), replace(shape, read_ms=5)) == 5


def test_a_first_run_that_died_amid_its_pass_has_read_the_ends(site: Site, pass_ms: Callable[[int], None]) -> None:
    site.source.make_topic("users", partitions=3, cleanup_policy="compact")
    for partition in range(3):
        put(site, 0, partition=partition)
    die_amid(site, "users")
    state = site.backup.state()
    assert (state.completed_at_ms, 0 < state.committed_at_ms - state.read_ms < HOUR_MS) == (0, True)
    pass_ms(25 * HOUR_MS)
    for partition in range(3):
        put(site, 30, partition=partition)
    (late,) = site.back_up().late
    assert (late.since_ms, late.partitions) == (state.read_ms, 2)  # of the third, nothing older is held


def test_markers_and_aborted_records_are_no_missing_offsets(site: Site) -> None:
    log = site.source.make_topic("users", cleanup_policy="compact").partitions[0]
    log.put(make_batch(0))
    log.put(make_control_batch(RECORDS_PER_BATCH, producer_id=7, committed=False))
    put(site, RECORDS_PER_BATCH + 1)
    site.back_up("users")
    (segments,) = site.backup.state().segments.values()
    (segment,) = segments
    assert (segment.control_batches, has_missing_offsets(segment)) == (1, False)
    assert has_missing_offsets(replace(segment, records=segment.records - 1))
