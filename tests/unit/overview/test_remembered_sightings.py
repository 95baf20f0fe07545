"""A coordinator that starts again knows since when a topic is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offsite.log.range import TopicIncarnation
from offsite.overview.comparison import TopicComparison, TopicState
from offsite.overview.remembered_sightings import FORGOTTEN_AFTER_MS, KEPT_EVERY_MS, SightingsMemory
from offsite.overview.source_evidence import Sightings
from tests.fake_cluster.site import BACKUP, Site
from tests.unit.overview.test_source import clock, site, watch_of
from tests.virtual_time import VirtualClock

__all__ = ("clock", "site")

ORDERS = TopicIncarnation("orders", "id")
NOW = 1_700_000_000_000
SEEN = Sightings(there_ms={ORDERS: NOW}, whole_ms={ORDERS: NOW})
LOST = replace(SEEN, found_ms={(ORDERS, TopicState.GONE): NOW + 30_000})


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def loss(site: Site, clock: VirtualClock) -> TopicComparison:
    watch = watch_of(site, clock)
    watch.look()
    return next(topic for topic in watch.comparison(BACKUP).topics if topic.topic == "orders")


def test_a_restart_forgets_no_look(site: Site, clock: VirtualClock) -> None:
    watch_of(site, clock).look()
    del site.source.topics["orders"]
    first = loss(site, clock)
    second = loss(site, clock)
    assert (first.state, first.seen_ms > 0) == (TopicState.GONE, True)
    assert (second.seen_ms, second.found_ms, second.detail) == (first.seen_ms, first.found_ms, first.detail)


def test_what_was_kept_is_recalled_and_only_by_the_same_place_and_backup() -> None:
    SightingsMemory("place", "a").keep(LOST, NOW + 30_000)
    assert SightingsMemory("place", "a").recall(NOW + 60_000) == LOST
    for place, backup in (("place", "b"), ("other", "a")):
        assert SightingsMemory(place, backup).recall(NOW + 60_000) == Sightings()


def test_since_when_a_loss_is_known_is_forgotten_if_nobody_looked_for_a_day() -> None:
    SightingsMemory("place", "a").keep(LOST, NOW + 30_000)
    recalled = SightingsMemory("place", "a").recall(NOW + 30_000 + FORGOTTEN_AFTER_MS)
    assert recalled == SEEN


def test_a_clock_that_was_set_back_recalls_nothing() -> None:
    SightingsMemory("place", "a").keep(LOST, NOW + 30_000)
    assert SightingsMemory("place", "a").recall(NOW) == Sightings()


def test_it_is_written_every_five_minutes_and_at_once_when_a_loss_is_found_or_over() -> None:
    memory = SightingsMemory("place", "a")

    def kept(sightings: Sightings, after_ms: int) -> Sightings:
        memory.keep(sightings, NOW + after_ms)
        return SightingsMemory("place", "a").recall(NOW + KEPT_EVERY_MS)

    later = replace(SEEN, there_ms={ORDERS: NOW + 1})
    assert kept(SEEN, 0) == SEEN
    assert kept(later, KEPT_EVERY_MS - 1) == SEEN
    assert kept(later, KEPT_EVERY_MS) == later
    assert kept(LOST, KEPT_EVERY_MS) == LOST
    assert kept(later, KEPT_EVERY_MS) == later


def test_a_memory_that_cannot_be_read_hides_nothing(tmp_path: Path) -> None:
    SightingsMemory("place", "a").keep(LOST, NOW)
    for file in (tmp_path / "state").rglob("*"):
        if file.is_file():
            file.write_text("{")
    assert SightingsMemory("place", "a").recall(NOW + 1) == Sightings()
