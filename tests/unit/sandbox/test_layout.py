from __future__ import annotations

from pathlib import Path

import pytest

from offsite.model.errors import BadOption, SandboxFailed
from offsite.sandbox import Sandbox
from offsite.sandbox.java import Java, Jvm
from offsite.sandbox.layout import (
    ClusterShape,
    Identity,
    NodeRole,
    choose_shape,
    format_storage,
    place_of,
    plan_nodes,
    read_shape,
    write_shape,
)
from offsite.sandbox.settings import SandboxSettings, Security, server_properties
from offsite.sandbox.versions import KNOWN_VERSIONS, kafka_jars

DEFAULTS = SandboxSettings()


def roles(shape: ClusterShape, folder: Path) -> list[tuple[str, NodeRole]]:
    return [(node.name, node.role) for node in plan_nodes(folder, shape, DEFAULTS)]


def lines_of(shape: ClusterShape, folder: Path, number: int, settings: SandboxSettings = DEFAULTS) -> dict[str, str]:
    nodes = plan_nodes(folder, shape, settings)
    node = nodes[number]
    place = place_of(node, nodes, settings)
    text = server_properties(settings, data=node.folder / "data", ports=node.ports, place=place)
    return dict(line.split("=", 1) for line in text.splitlines())


def test_one_broker_is_its_own_controller_in_the_folder_itself(tmp_path: Path) -> None:
    (node,) = plan_nodes(tmp_path, ClusterShape(), DEFAULTS)
    assert (node.role, node.folder) == (NodeRole.ALONE, tmp_path)


def test_several_brokers_have_one_keeper_of_the_metadata(tmp_path: Path) -> None:
    brokers = [(f"broker-{number}", NodeRole.BROKER) for number in (1, 2, 3)]
    assert roles(ClusterShape(brokers=3), tmp_path) == [("controller", NodeRole.CONTROLLER), *brokers]
    assert roles(ClusterShape(brokers=3, kafka_version="2.8.2"), tmp_path) == [
        ("zookeeper", NodeRole.ZOOKEEPER),
        *brokers,
    ]


def test_a_version_that_needs_a_zookeeper_has_one_even_with_one_broker(tmp_path: Path) -> None:
    assert len(roles(ClusterShape(kafka_version="2.7.2"), tmp_path)) == 2


def test_brokers_know_their_rack_and_keep_three_replicas(tmp_path: Path) -> None:
    lines = lines_of(ClusterShape(brokers=4), tmp_path, 2, SandboxSettings(min_insync=2))
    assert (lines["node.id"], lines["broker.rack"], lines["process.roles"]) == ("2", "rack-2", "broker")
    assert (lines["default.replication.factor"], lines["min.insync.replicas"]) == ("3", "2")
    assert lines["offsets.topic.replication.factor"] == "3"
    assert lines["replica.selector.class"].endswith("RackAwareReplicaSelector")


def test_a_broker_under_zookeeper_says_nothing_of_controllers_of_the_new_kind(tmp_path: Path) -> None:
    lines = lines_of(ClusterShape(kafka_version="2.7.2"), tmp_path, 1)
    assert lines["broker.id"] == "1"
    assert lines["zookeeper.connect"].startswith("127.0.0.1:")
    assert not {"process.roles", "node.id", "controller.quorum.voters"} & lines.keys()


def test_a_folder_stays_what_it_was(tmp_path: Path) -> None:
    write_shape(tmp_path, ClusterShape(brokers=3, kafka_version="3.9.1"))
    before = read_shape(tmp_path)
    assert choose_shape(DEFAULTS, before) == before
    with pytest.raises(BadOption, match=r"has 3 broker\(s\) of Kafka 3\.9\.1 already"):
        choose_shape(SandboxSettings(brokers=1), before)


def test_what_no_sandbox_can_be_is_refused() -> None:
    with pytest.raises(BadOption, match=r"no Kafka 0\.8"):
        choose_shape(SandboxSettings(kafka_version="0.8"), None)
    for brokers in (0, 10):
        with pytest.raises(BadOption, match="1 to 9 brokers"):
            choose_shape(SandboxSettings(brokers=brokers), None)
    with pytest.raises(BadOption, match="users or TLS"):
        choose_shape(SandboxSettings(brokers=3, security=Security(users={})), None)


@pytest.mark.parametrize("text", ["", "{}}", '{"more": 1}', "[" * 100_000, "[1]"])
def test_a_shape_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    write_shape(tmp_path, ClusterShape())
    (path,) = tmp_path.iterdir()
    path.write_text(text)
    with pytest.raises(SandboxFailed, match=str(path)):
        read_shape(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SandboxFailed, match="cannot be the folder of a sandbox") as caught:
        Sandbox(tmp_path / "file" / "sandbox").start()
    assert "--dir" in caught.value.hint


def formatted(folder: Path, version: str, *, is_controller: bool) -> set[str]:
    """The files of a node that was formatted from the levels of an earlier one."""
    jars, data = folder / "jars", folder / "data"
    jars.mkdir()
    (jars / "bootstrap.checkpoint").write_bytes(b"levels")
    jvm = Jvm(java=Java(launcher=Path("none"), major=17, build="b"), jars=jars, version=version)
    format_storage(data, Identity(cluster_id="c", is_controller=is_controller), jvm=jvm, config=folder / "none")
    return {str(path.relative_to(data)) for path in data.rglob("*") if path.is_file()}


@pytest.mark.parametrize("is_controller", [True, False])
def test_a_node_is_formatted_as_its_version_does(tmp_path: Path, is_controller: bool) -> None:
    snapshot = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    levels = {"4.3.1": {"bootstrap.checkpoint"}, "4.4.0": {snapshot} if is_controller else set()}
    for version, expected in levels.items():
        (folder := tmp_path / version).mkdir()
        assert formatted(folder, version, is_controller=is_controller) == {"meta.properties", *expected}


def test_each_known_version_has_its_own_jars() -> None:
    for version in KNOWN_VERSIONS:
        assert {jar.version for jar in kafka_jars(version) if jar.group == "org.apache.kafka"} == {version}
