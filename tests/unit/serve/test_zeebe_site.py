"""A coordinator that drives Zeebe: one checkpoint spans both, whoever asks for it and by which path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from offsite.checkpoint.serve import CheckpointServer
from tests.fake_cluster.site import BACKUP, Site
from tests.fake_zeebe.cluster import Exporter, FakeZeebe
from tests.fake_zeebe.server import ZeebeServer, says, serving
from tests.unit.serve.conftest import Connect, FakedClusters


@pytest.fixture
def zeebe() -> Iterator[ZeebeServer]:
    with serving(FakeZeebe()) as server:
        yield server


@pytest.fixture
def driving(coordinator: FakedClusters, site: Site, zeebe: ZeebeServer) -> FakedClusters:
    """A coordinator with a Zeebe cluster, whose processes take checkpoints at once."""
    coordinator.settings = replace(coordinator.settings, clusters={"zeebe": [f"east={zeebe.url}"]})
    begun = coordinator._begun

    def begin(job: str, arguments: tuple[str, ...], environment: object = None) -> None:
        begun(job, arguments, environment)
        CheckpointServer(
            repository=site.repository,
            backup=site.backup,
            cluster=site.source.connected,
            runner=site.runner,
            participants=coordinator.participants(site.backup),
        ).serve()

    coordinator.workers.begin = begin  # type: ignore[method-assign,assignment]
    return coordinator


def test_a_checkpoint_is_taken_and_deleted_in_both(
    driving: FakedClusters, connect: Connect, zeebe: ZeebeServer
) -> None:
    client = connect()
    assert client.post("/actuator/backups", json={"backupId": 100}).status_code == 202
    (_, command), *more = driving.begun
    assert f"--zeebe=east={zeebe.url}" in command
    assert not more
    assert zeebe.zeebe.ids == [100]
    assert zeebe.zeebe.exporters == {Exporter.EXPORTING}
    assert client.delete("/actuator/backups/100").status_code == 204
    assert zeebe.zeebe.ids == []


def test_the_own_api_does_the_same(driving: FakedClusters, connect: Connect, zeebe: ZeebeServer) -> None:
    client = connect()
    path = f"/api/v1/backups/{BACKUP}/checkpoints"
    assert client.post(path, json={"id": 7}).status_code == 202
    assert f"--zeebe=east={zeebe.url}" in driving.begun[0][1]


def test_its_own_deletion_deletes_both(driving: FakedClusters, connect: Connect, zeebe: ZeebeServer) -> None:
    client = connect()
    assert client.post("/actuator/backups", json={"backupId": 100}).status_code == 202
    path = f"/api/v1/backups/{BACKUP}/checkpoints/100"
    confirmation = client.post(f"{path}/deletion/plan").json()["confirmation"]
    assert client.delete(path, params={"confirmation": confirmation}).json()["status"] == "deleted"
    assert zeebe.zeebe.ids == []


def test_what_cannot_be_deleted_there_is_told(driving: FakedClusters, connect: Connect, zeebe: ZeebeServer) -> None:
    client: TestClient = connect()
    assert client.post("/actuator/backups", json={"backupId": 100}).status_code == 202
    zeebe.fail_next("DELETE", *[says(503)] * 3)
    answer = client.delete("/actuator/backups/100")
    assert (answer.status_code, "east" in answer.json()["message"]) == (409, True)
