"""A sandbox of several brokers, asked by an independent client."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from offsite.model.errors import BadOption
from offsite.sandbox import Sandbox, SandboxSettings
from tests.integration.e2e.command import offsite, succeed
from tests.integration.kafka.cluster import Cluster, numbered, wait_until

NAMES = {"controller", "broker-1", "broker-2", "broker-3"}


@pytest.fixture
def cluster(three_brokers: Sandbox) -> Cluster:
    info = three_brokers.status()
    assert info is not None
    return Cluster(info.bootstrap)


def live_brokers(bootstrap: str) -> set[int]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).brokers)


def test_all_brokers_are_one_cluster_with_a_rack_each(three_brokers: Sandbox, cluster: Cluster) -> None:
    assert [broker.node_id for broker in three_brokers.brokers] == [1, 2, 3]
    assert {broker.rack for broker in cluster.admin.cluster().brokers.values()} == {"rack-1", "rack-2", "rack-3"}
    topic = cluster.make_topic()
    assert cluster.admin.topics([topic])[topic].replication_factor == 3


def test_the_command_tells_of_all_its_processes(three_brokers: Sandbox, cluster: Cluster) -> None:
    told = succeed("sandbox", "status", "--dir", three_brokers.status().dir)  # type: ignore[union-attr]
    assert told["bootstrap"] == cluster.bootstrap
    assert told["bootstrap"].count(",") == 2
    assert told["pids"].keys() == NAMES
    assert told["pid"] == told["pids"]["broker-1"]


def test_one_that_is_killed_comes_back_on_its_port_with_its_data(three_brokers: Sandbox, cluster: Cluster) -> None:
    topic = cluster.make_topic()
    cluster.produce(topic, numbered(10))
    broker = three_brokers.broker(2)
    bootstrap, pid = broker.bootstrap, broker.pid
    broker.kill()
    assert not broker.is_running()
    assert three_brokers.status().pids.keys() == NAMES - {"broker-2"}  # type: ignore[union-attr]
    wait_until(lambda: live_brokers(cluster.bootstrap) == {1, 3})
    three_brokers.start()
    assert live_brokers(bootstrap) == {1, 2, 3}
    assert broker.pid not in {0, pid}
    assert len(cluster.records(topic)) == 10


def test_one_that_is_frozen_is_given_up_and_comes_back(three_brokers: Sandbox, cluster: Cluster) -> None:
    broker = three_brokers.broker(3)
    broker.pause()
    try:
        wait_until(lambda: live_brokers(three_brokers.broker(1).bootstrap) == {1, 2})
        assert broker.is_running()
    finally:
        broker.resume()
    wait_until(lambda: live_brokers(cluster.bootstrap) == {1, 2, 3})


def test_a_running_cluster_does_not_become_another_one(three_brokers: Sandbox) -> None:
    with pytest.raises(BadOption, match="has 3 broker"):
        three_brokers.start(settings=SandboxSettings(brokers=1))


def test_an_unknown_version_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    done = offsite("sandbox", "start", "--dir", tmp_path / "kafka", "--kafka-version", "1.0.0")
    assert done.exit_code == 2
    assert "4.1.1" in done.error["hint"]


@pytest.mark.soak
@pytest.mark.parametrize("version", ["2.7.2", "3.9.1"])
def test_other_versions_survive_a_kill_and_a_stop(tmp_path: Path, version: str) -> None:
    sandbox = Sandbox(tmp_path)
    try:
        before = sandbox.start(settings=SandboxSettings(brokers=3, kafka_version=version), owned=True)
        sandbox.broker(1).kill()
        sandbox.broker(1).start()
        wait_until(lambda: live_brokers(before.bootstrap) == {1, 2, 3})
        assert sandbox.stop()
        assert sandbox.status() is None
        after = sandbox.start(owned=True)
        assert (after.bootstrap, after.kafka_version) == (before.bootstrap, version)
    finally:
        sandbox.stop()
