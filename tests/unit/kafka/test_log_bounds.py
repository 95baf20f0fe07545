"""Leaders are asked for bounds and ends of epochs of all their partitions; a sick one keeps none of the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.log_bounds import SICK_AFTER_S
from offsite.kafka.net.routing import Router
from offsite.kafka.offsets import EpochEnd
from offsite.kafka.protocol.broker_errors import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.model.clock import SystemClock
from offsite.model.errors import KafkaTimeout, NoSuchTopic
from tests.fake_cluster.cluster import FakeCluster
from tests.fake_cluster.server import serving

PARTITIONS = [TopicPartition(topic="orders", partition=number) for number in range(100)]
EPOCHS = dict.fromkeys(PARTITIONS, 0)
TIMEOUT_MS = 50


class StepClock(SystemClock):
    """Sleeping is what makes time pass, and quickly."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += max(1.0, duration_s)


@pytest.fixture
def source() -> Iterator[FakeCluster]:
    with serving() as cluster:
        cluster.make_topic("orders", partitions=len(PARTITIONS))
        yield cluster


@pytest.fixture
def admin(source: FakeCluster) -> ClusterAdmin:
    """Whose leaders are known, as after a look at the bounds of logs."""
    admin = ClusterAdmin(Router(replace(source.config, request_timeout_ms=TIMEOUT_MS)), clock=StepClock())
    assert not admin.bounds(PARTITIONS).failed
    return admin


def test_a_leader_that_freezes_is_not_waited_for_by_each_of_its_partitions(
    source: FakeCluster, admin: ClusterAdmin
) -> None:
    began_s = SystemClock().monotonic_s()
    source.answering.clear()
    found = admin.epoch_ends(EPOCHS)
    took_s = SystemClock().monotonic_s() - began_s
    assert {type(each) for each in found.values()} == {KafkaTimeout}
    assert list(found) == PARTITIONS
    assert took_s < len(PARTITIONS) * TIMEOUT_MS / 1000 / 2


def test_what_is_said_against_one_partition_is_its_own(source: FakeCluster, admin: ClusterAdmin) -> None:
    source.failing[Api.OFFSET_FOR_LEADER_EPOCH, PARTITIONS[7]] = UNKNOWN_TOPIC_OR_PARTITION
    found = dict(admin.epoch_ends(EPOCHS))
    assert isinstance(found.pop(PARTITIONS[7]), NoSuchTopic)
    assert set(found.values()) == {EpochEnd(epoch=0, end=0)}
    assert len(found) == len(PARTITIONS) - 1


def test_a_leader_that_answers_again_is_asked_again(source: FakeCluster, admin: ClusterAdmin) -> None:
    source.answering.clear()
    clock = admin._clock
    assert isinstance(clock, StepClock)
    clock.sleep = lambda _: source.answering.set()  # type: ignore[method-assign]
    found = admin.epoch_ends(EPOCHS)
    assert set(found.values()) == {EpochEnd(epoch=0, end=0)}


def test_a_partition_that_is_known_to_be_sick_is_not_waited_for_as_long(
    source: FakeCluster, admin: ClusterAdmin
) -> None:
    clock = admin._clock
    assert isinstance(clock, StepClock)
    waited_s: list[float] = []
    for code in (LEADER_NOT_AVAILABLE, LEADER_NOT_AVAILABLE, 0, LEADER_NOT_AVAILABLE):
        source.failing.clear()
        if code:
            source.failing[Api.LIST_OFFSETS, PARTITIONS[7]] = code
        began_s = clock.now_s
        assert list(admin.bounds(PARTITIONS).failed) == ([PARTITIONS[7]] if code else [])
        waited_s.append(clock.now_s - began_s)
    first, known, well, again = waited_s
    assert first >= SICK_AFTER_S > 3 * known > 0
    assert well == 0
    assert again >= SICK_AFTER_S, "it was well in between"
