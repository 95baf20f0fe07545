"""Two coordinators, killed at random while checkpoints are taken by requests that are lost and repeated: every id is
taken once or never, and what is told of it is true and does not change."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from offsite.repository.checkpoint_records import CheckpointEvent, CheckpointRecords
from offsite.repository.repository import Repository
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from tests.integration.api.conftest import Coordinator, Serve, workers_of
from tests.integration.kafka.cluster import Cluster

IDS = range(100, 130)
FINAL = {"COMPLETED", "FAILED", "INCOMPLETE"}


@contextmanager
def producing(cluster: Cluster, topic: str) -> Iterator[None]:
    stop = threading.Event()

    def produce() -> None:
        while not stop.wait(0.05):
            cluster.produce(topic, [os.urandom(20) for _ in range(20)])

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_whoever_is_killed_each_checkpoint_has_one_owner_and_one_end(
    serve: Serve, broker: SandboxInfo, tmp_path: Path
) -> None:
    rng = random.Random(8)
    repository = Repository.init(open_store(str(tmp_path / "repository")))
    cluster = Cluster(broker.bootstrap)
    topic = cluster.make_topic(partitions=3)
    cluster.produce(topic, [b"first"])
    options = ("--bootstrap", cluster.bootstrap)
    both = [serve(*options), serve(*options)]
    done = both[0].post("/api/v1/backups/nightly/runs", {"topics": [topic]}).json()["job"]
    assert both[0].ended(done)["state"] == "succeeded"
    seen: dict[int, list[int]] = {}
    with producing(cluster, topic):
        for checkpoint in IDS:
            seen[checkpoint] = _ask(rng, both, checkpoint)
            if rng.random() < 0.5:
                rng.choice(both).kill()
            both = [each if each.process.poll() is None else serve(*options) for each in both]
            if rng.random() < 0.2:
                for pid in workers_of(tmp_path):
                    os.kill(pid, signal.SIGKILL)
    _settle(both[0], tmp_path)
    backup = repository.backup("nightly")
    records = CheckpointRecords.of(backup)
    told = {each["backupId"]: each["state"] for each in both[1].get("/actuator/backups")}
    assert set(told.values()) <= FINAL | {"IN_PROGRESS"}
    for checkpoint, statuses in seen.items():
        assert statuses.count(202) <= 1, "it was taken twice"
        if 202 in statuses:
            assert told[checkpoint] in FINAL, (checkpoint, told)
        if told.get(checkpoint) == "COMPLETED":
            assert records.note(checkpoint, CheckpointEvent.FAILED) is None
            assert backup.state().checkpoint(checkpoint) is not None
    assert sum(state == "COMPLETED" for state in told.values()) >= len(IDS) // 3
    assert {each["backupId"]: each["state"] for each in both[0].get("/actuator/backups")} == told


def _ask(rng: random.Random, both: list[Coordinator], checkpoint: int) -> list[int]:
    """Ask one or both, at once, and again; the answers that came."""
    answers: list[int] = []

    def ask(coordinator: Coordinator) -> None:
        try:
            answers.append(coordinator.post("/actuator/backups", {"backupId": checkpoint}).status_code)
        except httpx.HTTPError:  # its coordinator was killed
            answers.append(0)

    asking = [threading.Thread(target=ask, args=(rng.choice(both),)) for _ in range(rng.choice((1, 2, 3)))]
    for each in asking:
        each.start()
    if rng.random() < 0.3:
        threading.Event().wait(rng.random() * 4)
        rng.choice(both).process.kill()
    for each in asking:
        each.join()
    return answers


def _settle(coordinator: Coordinator, folder: Path) -> None:
    """Until no process works on a checkpoint any more, and the last lease has run out."""
    for _ in range(900):
        states = {each["state"] for each in coordinator.get("/actuator/backups")}
        if "IN_PROGRESS" not in states or not workers_of(folder):
            return
        threading.Event().wait(0.2)
