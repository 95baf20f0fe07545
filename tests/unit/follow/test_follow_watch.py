"""What a run that follows says of itself is what its rounds saw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from offsite.backup.options import BackupRequest
from offsite.backup.outages import Outage, Outages
from offsite.engine.runner import RunProgress
from offsite.follow.follower import Follower, FollowSettings, FollowTimes
from offsite.follow.watch import FollowWatch, counted
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.model.clock import SystemClock
from offsite.model.errors import KafkaUnreachable
from offsite.model.selection import parse_selection
from offsite.monitor.view import Durations, FollowState, FollowView, TopicView
from tests.batches import FIRST_TIME_MS
from tests.fake_cluster.cluster import DENIED
from tests.fake_cluster.site import BACKUP, Site
from tests.inline_runner import InlineRunner
from tests.unit.monitor.views import request_counts

ORDERS_0 = TopicPartition(topic="orders", partition=0)


class Ended(Exception):
    """The script is over."""


class Scripted(SystemClock):
    """Each sleep is a step."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self._steps = list(steps)

    def sleep(self, duration_s: float) -> None:
        if not self._steps:
            raise Ended
        self._steps.pop(0)()


def watched(site: Site, *steps: Callable[[], object], durations: Durations | None = None) -> list[FollowView]:
    """The views after each round or outage."""
    shown: list[FollowView] = []
    clock = Scripted(*steps)
    watch = FollowWatch(
        FollowView(backup=BACKUP, interval_s=10, started_ms=1, durations=durations or Durations()),
        backup=lambda: site.backup,
        settings=site.source.admin,
        clock=clock,
        show=shown.append,
    )
    following = FollowSettings(
        repository=site.repository,
        cluster=site.source.connected,
        runner=InlineRunner(),
        request=BackupRequest(backup=BACKUP, selection=parse_selection(["*"])),
        times=FollowTimes(interval_s=10),
    )
    outages = Outages(give_up_after_s=60, clock=clock, on_outage=watch.outage)
    with pytest.raises(Ended):
        Follower(following, outages=outages, clock=clock, on_round=watch.round).run()
    return shown


def topic(view: FollowView, name: str) -> TopicView:
    (found,) = (each for each in view.topics if each.topic == name)
    return found


@pytest.fixture
def orders(site: Site) -> Site:
    site.source.make_topic("orders", partitions=2)
    for partition in range(2):
        site.source.write("orders", [b"a", b"b"], partition=partition)
    return site


def test_a_round_that_has_all_is_counted_and_its_topics_are_caught_up(orders: Site) -> None:
    first, second = watched(orders, lambda: orders.source.write("orders", [b"c"]))
    assert (first.rounds, first.passes, first.commits, first.records, first.head_commit) == (1, 1, 1, 4, 1)
    assert (second.rounds, second.commits, second.records, second.head_commit) == (2, 2, 5, 2)
    assert first.state is FollowState.FOLLOWING
    seen = topic(second, "orders")
    assert seen.lag_records == 0
    assert seen.caught_up_ms > topic(first, "orders").caught_up_ms > 0
    assert seen.newest_record_ms >= FIRST_TIME_MS
    assert seen.headroom_s is None, "nothing is uncopied"


def test_a_partition_that_fails_keeps_its_topic_behind_and_says_until_when(orders: Site) -> None:
    def write_and_fail() -> None:
        orders.source.topics["orders"].configs["retention.ms"] = "1000"
        orders.source.write("orders", [b"c", b"d"])
        orders.source.failing[Api.FETCH, ORDERS_0] = DENIED

    first, second = watched(orders, write_and_fail)
    seen = topic(second, "orders")
    assert (second.pass_complete, second.passes, sum(second.failed.values())) == (False, 1, 1)
    assert second.state is FollowState.CATCHING_UP
    assert seen.lag_records == 2
    assert seen.caught_up_ms == topic(first, "orders").caught_up_ms
    assert seen.headroom_s == 0, "records of long ago, and a retention of a second"


def test_a_topic_without_records_is_caught_up_and_has_no_newest_one(site: Site) -> None:
    site.source.make_topic("empty")
    (view,) = watched(site)
    seen = topic(view, "empty")
    assert (seen.newest_record_ms, seen.restorable_from_ms, seen.lag_records) == (-1, -1, 0)
    assert seen.caught_up_ms > 0


def test_an_outage_is_shown_and_counted_until_a_round_works(orders: Site) -> None:
    views: list[FollowView] = []
    clock = SystemClock()
    watch = FollowWatch(
        FollowView(backup=BACKUP, interval_s=10, started_ms=1),
        backup=lambda: orders.backup,
        settings=orders.source.admin,
        clock=clock,
        show=views.append,
    )
    error = KafkaUnreachable("no broker answers", hint="")
    for attempts in (1, 2):
        watch.outage(Outage(error=error, attempts=attempts, since_ms=5, wait_s=1))
    assert [view.outage.since_ms if view.outage else None for view in views] == [5, 5]
    assert (views[-1].outages, views[-1].retries) == ({error.id: 1}, {error.id: 2})
    assert views[-1].state is FollowState.OUTAGE
    (after,) = watched(orders)
    assert after.outage is None


def test_holes_are_counted_by_reason(orders: Site) -> None:
    def overtake() -> None:
        orders.source.write("orders", [b"c", b"d"])
        orders.source.topics["orders"].partitions[0].delete_before(3)

    *_, last = watched(orders, overtake)
    assert last.holes == {"retention": 1}


def test_compacted_topics_that_were_read_too_late_are_counted(orders: Site) -> None:
    def empty() -> None:
        orders.source.topics["orders"].configs["cleanup.policy"] = "compact"
        orders.source.write("orders", [b"c", b"d"])
        orders.source.topics["orders"].partitions[0].delete_before(3)

    first, *_, last = watched(orders, empty)
    assert (first.late_topics, last.late_topics) == (0, 1)


def test_a_topic_that_is_hidden_from_us_stays_in_view_and_ages(orders: Site) -> None:
    orders.source.make_topic("users")

    def hide() -> None:
        orders.source.hidden.add("orders")

    first, second = watched(orders, hide)
    before, seen = topic(first, "orders"), topic(second, "orders")
    assert sum(second.failed.values()) == 2
    assert (seen.newest_record_ms, seen.restorable_from_ms) == (before.newest_record_ms, before.restorable_from_ms)
    assert seen.caught_up_ms == before.caught_up_ms > 0
    assert (seen.lag_records, seen.headroom_s) == (-1, None), "nobody knows what was written since"
    assert topic(second, "users").caught_up_ms > topic(first, "users").caught_up_ms


def test_a_topic_that_was_hidden_before_the_run_began_is_in_view_too(orders: Site) -> None:
    orders.source.make_topic("users")
    watched(orders)
    orders.source.hidden.add("orders")
    (view,) = watched(orders)
    seen = topic(view, "orders")
    assert (seen.newest_record_ms >= FIRST_TIME_MS, seen.caught_up_ms, seen.lag_records) == (True, -1, -1)


@pytest.mark.usefixtures("asked_again_at_once")
def test_a_topic_that_is_deleted_at_the_source_leaves_the_view(orders: Site) -> None:
    orders.source.make_topic("users")
    _, second = watched(orders, lambda: orders.source.topics.pop("orders"))
    assert [each.topic for each in second.topics] == ["users"]


def test_what_was_seen_to_be_uncopied_has_its_headroom_also_when_the_partition_does_not_answer(orders: Site) -> None:
    def write_and_fail() -> None:
        orders.source.topics["orders"].configs["retention.ms"] = "1000"
        orders.source.write("orders", [b"c", b"d"])
        orders.source.failing[Api.FETCH, ORDERS_0] = DENIED

    def fall_silent() -> None:
        orders.source.failing[Api.LIST_OFFSETS, ORDERS_0] = DENIED

    def hide() -> None:
        orders.source.hidden.add("orders")

    orders.source.make_topic("users")
    _, failing, silent, hidden = watched(orders, write_and_fail, fall_silent, hide)
    assert [topic(view, "orders").headroom_s for view in (failing, silent, hidden)] == [0, 0, 0]
    assert [topic(view, "orders").lag_records for view in (failing, silent, hidden)] == [2, -1, -1]


def test_a_partition_that_never_answered_has_no_headroom(orders: Site) -> None:
    orders.source.topics["orders"].configs["retention.ms"] = "1000"
    orders.source.failing[Api.LIST_OFFSETS, ORDERS_0] = DENIED
    (view,) = watched(orders)
    assert (topic(view, "orders").lag_records, topic(view, "orders").headroom_s) == (-1, None)


def test_requests_to_the_store_progress_and_partitions_tried_again_are_told(orders: Site) -> None:
    durations, counts = Durations(), []
    counting = replace(orders, repository=counted(orders.repository, durations))

    def fail() -> None:
        counts.append(request_counts(durations)["put", "ok"])
        orders.source.write("orders", [b"c"])
        orders.source.failing[Api.FETCH, ORDERS_0] = DENIED

    def heal() -> None:
        orders.source.failing.clear()

    *_, failing, healed = watched(counting, fail, heal, durations=durations)
    assert (sum(failing.retried_partitions.values()), sum(healed.retried_partitions.values())) == (0, 1)
    assert healed.progress == 1
    assert request_counts(healed.durations)["put", "ok"] > counts[0] > 0


def test_progress_of_a_round_under_way_is_the_part_of_its_tasks_that_have_ended(orders: Site) -> None:
    shown: list[FollowView] = []
    watch = FollowWatch(
        FollowView(backup=BACKUP, interval_s=10, started_ms=1),
        backup=lambda: orders.backup,
        settings=orders.source.admin,
        clock=SystemClock(),
        show=shown.append,
    )
    watch.progress(
        RunProgress(
            tasks_total=8, tasks_done=1, tasks_failed=1, moved_bytes=0, records=0, elapsed_s=1, worker_peak_rss_bytes=0
        )
    )
    assert [view.progress for view in shown] == [0.25]
