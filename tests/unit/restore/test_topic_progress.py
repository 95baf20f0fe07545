"""How far each topic of a restore is, by the ends of the logs in the target."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from offsite.restore import topic_progress
from offsite.restore.run import run_restore
from offsite.restore.topic_progress import TopicProgress, TopicWatch, watching_topics
from tests.fake_cluster.site import Site
from tests.virtual_time import VirtualClock


@pytest.fixture
def filled(site: Site) -> Site:
    for topic in ("orders", "payments"):
        site.source.make_topic(topic, partitions=2)
        site.source.write(topic, [b"a"] * 10)
    site.back_up("*")
    return site


@pytest.mark.parametrize("offsets", ["preserve", "translate"])
def test_each_topic_is_told_before_amid_and_after(filled: Site, offsets: str) -> None:
    prepared, clock = filled.plan_restore(offsets=offsets), VirtualClock()
    watch = TopicWatch(prepared, filled.target.admin, clock)
    assert watch.look() == (), "the topics are not made yet"
    run_restore(prepared, cluster=filled.target.connected, runner=filled.runner)
    whole = [(topic.topic, topic.done, topic.total, topic.is_done) for topic in watch.look()]
    assert whole == [("orders", 10, 10, True), ("payments", 10, 10, True)]


def test_a_rate_is_taken_over_several_looks(filled: Site) -> None:
    prepared, clock = filled.plan_restore(offsets="translate"), VirtualClock()
    run_restore(prepared, cluster=filled.target.connected, runner=filled.runner)
    watch = TopicWatch(prepared, filled.target.admin, clock)
    log = filled.target.topics["orders"].partitions[0]
    end, log.end = log.end, 1
    assert watch.look()[0].done < 10
    log.end = end
    clock.sleep(2.0)
    (orders, payments) = watch.look()
    assert (orders.rate > 0, payments.rate, payments.remaining_s) == (True, 0, None)


def test_remaining_time_follows_from_the_rate() -> None:
    assert TopicProgress(topic="a", done=10, total=110, rate=20).remaining_s == 5.0


def test_a_thread_tells_whoever_listens_and_a_failed_look_ends_nothing(
    filled: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_progress, "LOOK_S", 0.01)
    prepared, was_heard = filled.plan_restore(), threading.Event()
    heard: list[Any] = []

    def listen(topics: Any) -> None:
        heard.append(topics)
        was_heard.set()

    with watching_topics(prepared, filled.target.connected, listen):
        run_restore(prepared, cluster=filled.target.connected, runner=filled.runner)
        assert was_heard.wait(30)
    with watching_topics(prepared, filled.target.connected, None):
        pass
    assert heard
