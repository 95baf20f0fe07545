"""A coordinator as users have it: its own process, a real broker, jobs that outlive it."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offsite.repository.repository import Repository
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from tests.integration.api.conftest import Coordinator, Serve, workers_of
from tests.integration.kafka.cluster import Cluster

RECORDS = 40


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.init(open_store(str(tmp_path / "repository")))


@pytest.fixture
def source(broker: SandboxInfo) -> tuple[Cluster, str]:
    """A cluster, and a topic of its own in it."""
    cluster = Cluster(broker.bootstrap)
    topic = cluster.make_topic(partitions=2)
    cluster.produce(topic, [f"order {number}".encode() for number in range(RECORDS)])
    return cluster, topic


def until(seen: Callable[[], bool], limit: int = 1200) -> bool:
    return any(seen() or threading.Event().wait(0.1) for _ in range(limit))


def done(coordinator: Coordinator, path: str, body: Any) -> Any:
    """A job that has to end well."""
    begun = coordinator.post(path, body)
    assert begun.status_code == 202, begun.text
    job = coordinator.ended(begun.json()["job"])
    assert job["state"] == "succeeded", job
    return job


def test_a_topic_is_backed_up_lost_and_brought_back_over_http(
    serve: Serve, repository: Repository, source: tuple[Cluster, str]
) -> None:
    cluster, topic = source
    coordinator = serve("--bootstrap", cluster.bootstrap)
    backed_up = done(coordinator, "/api/v1/backups/nightly/runs", {"topics": [topic]})
    assert backed_up["result"]["records"] == RECORDS
    assert coordinator.get("/api/v1/status")["backups"][0]["safe"] is True

    taken = coordinator.post("/actuator/backups", {"backupId": 100})
    assert taken.status_code == 202, taken.text
    assert until(lambda: coordinator.get("/actuator/backups/100")["state"] == "COMPLETED")

    cluster.admin.delete_topics([topic])
    assert until(lambda: topic not in cluster.admin.topics())
    base = "/api/v1/backups/nightly/restores"
    planned = coordinator.post(f"{base}/plan", {"checkpoint": 100}).json()
    assert coordinator.post(base, {**planned["words"], "confirmation": "0" * 32}).status_code == 409
    assert topic not in cluster.admin.topics()
    job = done(coordinator, base, {**planned["words"], "confirmation": planned["confirmation"]})
    assert (job["result"]["records"], job["result"]["verified"]) == (RECORDS, True)
    assert repository.backup("nightly").state().seq >= 2


def test_a_job_outlives_its_coordinator_and_any_other_one_ends_it(
    serve: Serve, repository: Repository, source: tuple[Cluster, str], tmp_path: Path
) -> None:
    cluster, topic = source
    first, second = serve("--bootstrap", cluster.bootstrap), serve("--bootstrap", cluster.bootstrap)
    done(first, "/api/v1/backups/nightly/runs", {"topics": [topic]})
    begun = first.post("/api/v1/backups/nightly/drills", {}, **{"Idempotency-Key": "once"}).json()
    first.kill()
    assert until(lambda: second.get(f"/api/v1/jobs/{begun['job']}")["state"] == "running")
    again = second.post("/api/v1/backups/nightly/drills", {}, **{"Idempotency-Key": "once"}).json()
    assert (again["job"], again["is_new"]) == (begun["job"], False)
    assert second.post(f"/api/v1/jobs/{begun['job']}/cancel").status_code == 202
    assert second.ended(begun["job"])["state"] == "cancelled"
    assert until(lambda: workers_of(tmp_path) == [])
    assert repository.store.get("offsite.json") is not None


def test_a_job_whose_process_is_killed_is_lost_and_said_to_be(
    serve: Serve, repository: Repository, source: tuple[Cluster, str], tmp_path: Path
) -> None:
    cluster, topic = source
    coordinator = serve("--bootstrap", cluster.bootstrap)
    job = coordinator.post("/api/v1/backups/nightly/runs", {"topics": [topic]}).json()["job"]
    assert until(lambda: coordinator.get(f"/api/v1/jobs/{job}")["state"] == "running")
    for pid in workers_of(tmp_path):
        os.kill(pid, signal.SIGKILL)
    assert until(lambda: coordinator.get(f"/api/v1/jobs/{job}")["state"] == "lost", 100)
    assert repository.store.get("offsite.json") is not None


def test_who_says_nothing_does_not_keep_others_out(serve: Serve, repository: Repository, tmp_path: Path) -> None:
    coordinator = serve()
    host, port = coordinator.url.removeprefix("http://").split(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(40)]
    for each in silent[:20]:
        each.sendall(b"POST /api/v1/jobs/x/cancel HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n")
    assert coordinator.get("/api/v1/status")["backups"] == []
    for each in silent:
        each.settimeout(30)
        assert each.recv(1) == b"", "it was not ended"
        each.close()
    assert coordinator.stop() in {0, 143}
    assert (tmp_path / "repository").exists()
    assert repository.backups() == ()


def test_another_user_of_this_machine_is_a_stranger(serve: Serve, repository: Repository) -> None:
    """Whoever started it has a code, in the address that it told, which begins one session."""
    assert repository
    coordinator = serve(is_open=False)
    with coordinator.client() as stranger:
        assert stranger.get("/api/v1/status").status_code == 401
        assert stranger.post("/api/v1/backups/b/runs", json={}).status_code == 401
    with coordinator.client(coordinator.login.partition("code=")[2]) as stranger:
        assert stranger.get("/api/v1/status").status_code == 401
    with coordinator.client() as browser:
        assert browser.get(coordinator.login, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200  # the form
        assert browser.get("/api/v1/status").status_code == 401
        assert browser.get(coordinator.login).headers["Location"] == "/"
        assert browser.get("/api/v1/status").status_code == 200
        assert browser.get(coordinator.login).headers["Location"] == "/"
    with coordinator.client() as late:
        assert late.get(coordinator.login).status_code == 401
