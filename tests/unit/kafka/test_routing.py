"""Which brokers are asked about a cluster, and which answers count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.net.routing import Router
from offsite.model.errors import KafkaUnreachable
from tests.fake_cluster.cluster import FakeCluster, FakeGroup
from tests.fake_cluster.server import serving
from tests.fake_cluster.topic_answers import NODE
from tests.virtual_time import VirtualClock


class Joining(VirtualClock):
    """A clock by which `young` joins its cluster at `at_s`."""

    def __init__(self, young: FakeCluster, *, at_s: float) -> None:
        super().__init__()
        self._young, self._at_s = young, at_s

    def sleep(self, duration_s: float) -> None:
        super().sleep(duration_s)
        self._young.knows_brokers = self.now_s >= self._at_s


@pytest.fixture
def young() -> Iterator[FakeCluster]:
    """A broker that has just begun: it answers, and knows no brokers yet."""
    with serving() as cluster:
        cluster.knows_brokers = False
        cluster.groups["workers"] = FakeGroup()
        yield cluster


def test_a_broker_that_knows_its_cluster_is_asked_after_one_that_has_just_begun(young: FakeCluster) -> None:
    with ExitStack() as stack:
        old = stack.enter_context(serving())
        old.make_topic("orders")
        router = Router(replace(young.config, bootstrap=(young.address, old.address)))
        metadata = router.metadata(None)
    assert (list(metadata.topics), [broker.address for broker in metadata.brokers.values()]) == (
        ["orders"],
        [old.address],
    )


def test_an_answer_without_any_broker_takes_no_brokers_away(young: FakeCluster) -> None:
    young.knows_brokers = True
    router = Router(young.config)
    router.metadata([])
    young.knows_brokers = False
    with pytest.raises(KafkaUnreachable, match="knows no brokers of its cluster yet"):
        router.metadata([])
    with router.lease_broker(NODE) as connection:
        assert connection.address == young.address


@pytest.mark.parametrize("joins", [True, False])
def test_a_cluster_whose_brokers_are_not_known_yet_has_not_no_groups(young: FakeCluster, joins: bool) -> None:
    """The groups would count as deleted."""
    admin = ClusterAdmin(Router(young.config), clock=Joining(young, at_s=5.0 if joins else 500.0))
    if joins:
        assert [group.group for group in admin.groups.list()] == ["workers"]
        return
    for read in (admin.groups.list, admin.settings.broker_configs, lambda: admin.topics(None)):
        with pytest.raises(KafkaUnreachable, match="knows no brokers of its cluster yet"):
            read()
