"""A command topic of each Kafka the sandbox can be: backed up, deleted, restored, and followed on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.sandbox import KNOWN_VERSIONS, SandboxSettings
from tests.integration.kafka.cluster import Cluster
from tests.integration.metastore.ksql import Ksql, create_stream
from tests.integration.metastore.test_metastore import ODD, Node, delete
from tests.integration.versions.test_round_trip import await_coordinator
from tests.shared_brokers import running

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module", params=KNOWN_VERSIONS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp(request.param), SandboxSettings(kafka_version=request.param)) as (_, info):
        cluster = Cluster(info.bootstrap)
        await_coordinator(cluster)
        yield cluster


def test_a_deleted_command_topic_comes_back_at_its_offsets(cluster: Cluster, tmp_path: Path) -> None:
    node = Node(Ksql(cluster), tmp_path / "backups")
    node.ksql.make_topic()
    node.ksql.write([create_stream(1), *ODD])
    node.ksql.write([create_stream(2), create_stream(3)], at_once=True)
    node.ksql.write([create_stream(9)], commit=False)
    node.ksql.write([create_stream(4)])
    before = node.ksql.records()
    file = node.back_up()["file"]
    delete(node)
    assert node.back_up(exit_code=14)["verdict"] == "gone"
    done = node.run("restore", file, *node.ends, "--yes")
    assert done.exit_code == 0, done.stderr
    assert (done.result["same_offsets"], done.result["verified"]) == (True, True)
    assert node.ksql.records() == before
    node.ksql.write([create_stream(5)])
    assert node.back_up()["appended"] == 1
    node.ksql.write([create_stream(6)])
    replaced = node.run("restore", file, *node.ends, "--yes")
    assert (replaced.exit_code, replaced.result["copy"] is not None) == (0, True), replaced.stderr
    assert len(node.ksql.records()) == len(before) + 1
