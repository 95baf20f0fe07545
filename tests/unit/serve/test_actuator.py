"""The management API in Zeebe's shape: its codes and its JSON."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from offsite.checkpoint.request import request_checkpoint
from offsite.checkpoint.serve import CheckpointServer
from offsite.serve import actuator
from tests.fake_cluster.site import BACKUP, Site
from tests.unit.serve.conftest import FakedClusters

PATHS = ("/actuator/backups", "/actuator/backupRuntime")


def serve(site: Site) -> None:
    CheckpointServer(
        repository=site.repository, backup=site.backup, cluster=site.source.connected, runner=site.runner
    ).serve()


@pytest.fixture
def taking(coordinator: FakedClusters, site: Site) -> FakedClusters:
    """A coordinator whose processes take checkpoints at once."""
    begun = coordinator._begun

    def begin(job: str, arguments: Any, environment: object = None) -> None:
        begun(job, arguments, environment)
        serve(site)

    coordinator.workers.begin = begin  # type: ignore[method-assign]
    return coordinator


@pytest.mark.parametrize("path", PATHS)
def test_one_is_taken_seen_and_deleted(client: TestClient, taking: FakedClusters, path: str) -> None:
    taken = client.post(path, json={"backupId": 100})
    assert (taken.status_code, set(taken.json())) == (202, {"message"})
    assert [command[:2] for _, command in taking.begun] == [("checkpoint", "take")]
    seen = client.get(f"{path}/100").json()
    assert (seen["backupId"], seen["state"], len(seen["details"])) == (100, "COMPLETED", 2)
    first = seen["details"][0]
    assert (first["partitionId"], first["topic"], first["partition"], first["state"]) == (1, "orders", 0, "COMPLETED")
    assert first["createdAt"].endswith("Z")
    assert sum(each["checkpointPosition"] for each in seen["details"]) == 2
    assert client.get(path).json() == [seen] == client.get(f"{path}/10*").json()
    assert client.get(f"{path}/2*").json() == []
    assert client.delete(f"{path}/100").status_code == 204
    assert client.get(f"{path}/100").status_code == 404
    assert client.delete(f"{path}/100").status_code == 204
    assert client.delete(f"{path}/12345").status_code == 204


@pytest.mark.parametrize("body", [{}, {"backupId": 0}, {"backupId": -1}, {"backupId": "x"}, {"backupId": 2**63}, []])
def test_no_id_is_no_request(client: TestClient, body: Any) -> None:
    answer = client.post(PATHS[0], json=body)
    assert (answer.status_code, set(answer.json())) == (400, {"message"})


def test_an_id_as_text_is_taken_for_its_number(client: TestClient, taking: FakedClusters) -> None:
    assert taking.begun == []
    assert client.post(PATHS[0], json={"backupId": "5"}).status_code == 202


def test_the_same_or_a_lower_id_is_refused(client: TestClient, taking: FakedClusters) -> None:
    assert client.post(PATHS[0], json={"backupId": 100}).status_code == 202
    assert client.post(PATHS[0], json={"backupId": 100}).status_code == 409
    lower = client.post(PATHS[0], json={"backupId": 99})
    assert lower.status_code == 409
    assert "100" in lower.json()["message"]
    assert client.delete(f"{PATHS[0]}/100").status_code == 204
    assert client.post(PATHS[0], json={"backupId": 100}).status_code == 409, "never again, also after its deletion"
    assert len(taking.begun) == 1


def test_what_does_not_start_in_time_is_told_so(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actuator, "STARTS_WITHIN_S", 0.05)
    monkeypatch.setattr(actuator, "LOOK_S", 0.01)
    assert client.post(PATHS[0], json={"backupId": 3}).status_code == 504
    assert client.get(f"{PATHS[0]}/3").json()["state"] == "IN_PROGRESS"


def test_where_nobody_takes_checkpoints_nothing_is_asked(client: TestClient, coordinator: FakedClusters) -> None:
    coordinator.settings.addresses.clear()  # type: ignore[attr-defined]
    assert client.post(PATHS[0], json={"backupId": 3}).status_code == 503
    assert client.get(PATHS[0]).json() == []


@pytest.mark.parametrize("path", ["x", "1*2", "*5", "-1", "0", "1.5"])
def test_what_is_no_id_is_told_so(client: TestClient, path: str) -> None:
    assert client.get(f"{PATHS[0]}/{path}").status_code == 400
    assert client.delete(f"{PATHS[0]}/{path}").status_code == 400


def test_its_state_is_the_store(client: TestClient, site: Site) -> None:
    assert client.get(f"{PATHS[0]}/state").json() == {"checkpointStates": [], "backupStates": [], "ranges": []}
    for checkpoint in (10, 20):
        request_checkpoint(site.backup, checkpoint)
        serve(site)
    state = client.get(f"{PATHS[0]}/state").json()
    assert {each["checkpointId"] for each in state["checkpointStates"]} == {20}
    assert [(each["start"]["checkpointId"], each["end"]["checkpointId"]) for each in state["ranges"]] == [(10, 20)] * 2
    assert client.post(f"{PATHS[0]}/state/sync").json() == state


def test_the_newest_come_first(client: TestClient, site: Site) -> None:
    for checkpoint in (10, 20, 30):
        request_checkpoint(site.backup, checkpoint)
        serve(site)
    assert [each["backupId"] for each in client.get(PATHS[1]).json()] == [30, 20, 10]
    assert BACKUP in client.get("/api/v1/status").text
