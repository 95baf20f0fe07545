"""The example on three brokers while everything dies: each checkpoint that it completes has to be one."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from examples.stream_processor.coordinator import Coordinator
from examples.stream_processor.place import Place
from offsite.sandbox import Sandbox
from offsite_participant.bcs_copies import BackupStatus
from tests.integration.stream_processor.processor_world import (
    NodeProcess,
    new_place,
    restored,
    traffic,
    violations,
    wait_until,
)

RESTORES = 50
NODES = 3
CHECKPOINT_EVERY_S = 2.0
CHANGE_EVERY_S = (6.0, 12.0)
BROKER_DIES = 0.25  # of the times between two restores
SEED = 16


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_all_restores_agree_though_nodes_and_brokers_die(three_brokers: Sandbox, tmp_path: Path) -> None:
    info, rng = three_brokers.status(), random.Random(SEED)
    assert info is not None
    place = new_place(info.bootstrap, tmp_path, replicas=3)
    found: dict[int, list[str]] = {}
    with ExitStack() as running:
        nodes = running.enter_context(_dying_nodes(place, random.Random(rng.random())))
        running.enter_context(traffic(place, random.Random(rng.random()), every_s=0.1))
        outcomes = running.enter_context(_checkpoints(place))
        while len(found) < RESTORES:
            checkpoint = _newest(outcomes, found)
            found[checkpoint] = violations(restored(place, checkpoint, replicas=3))
            assert found[checkpoint] == [], checkpoint
            assert [said for each in nodes if (said := each.has_died())] == []
            print(f"{len(found)} restores, checkpoints: {_counted(outcomes)}, leaders: {_terms(place)}", flush=True)  # noqa: T201
            if rng.random() < BROKER_DIES:
                _broker_dies(three_brokers, rng)
    assert BackupStatus.FAILED in outcomes.values()  # else nobody died at the right moment


@contextmanager
def _checkpoints(place: Place) -> Iterator[dict[int, BackupStatus]]:
    """Takes one after the other; each with its status."""
    stop, outcomes, coordinator = threading.Event(), dict[int, BackupStatus](), Coordinator(place)

    def run() -> None:
        while not stop.wait(CHECKPOINT_EVERY_S):
            checkpoint = coordinator.new_id()
            outcomes[checkpoint] = coordinator.take(checkpoint)

    with _thread(run, stop):
        yield outcomes


@contextmanager
def _dying_nodes(place: Place, rng: random.Random) -> Iterator[list[NodeProcess]]:
    stop, nodes = threading.Event(), [NodeProcess(place) for _ in range(NODES)]

    def run() -> None:
        while not stop.wait(rng.uniform(*CHANGE_EVERY_S)):
            number = rng.randrange(NODES)
            rng.choice((nodes[number].kill, nodes[number].stop))()
            nodes[number] = NodeProcess(place)

    try:
        with _thread(run, stop):
            yield nodes
    finally:
        for each in nodes:
            each.kill()


@contextmanager
def _thread(run: object, stop: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=run)  # type: ignore[arg-type]
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _newest(outcomes: dict[int, BackupStatus], found: dict[int, list[str]]) -> int:
    def candidates() -> list[int]:
        return [each for each, status in list(outcomes.items()) if status is BackupStatus.COMPLETED]

    wait_until(lambda: any(each not in found for each in candidates()), "a completed checkpoint")
    return max(each for each in candidates() if each not in found)


def _broker_dies(sandbox: Sandbox, rng: random.Random) -> None:
    broker = rng.choice(sandbox.brokers)
    broker.kill()
    time.sleep(rng.uniform(0.5, 8.0))
    broker.start()


def _counted(outcomes: dict[int, BackupStatus]) -> dict[str, int]:
    values = list(outcomes.values())
    return {str(each): values.count(each) for each in set(values)}


def _terms(place: Place) -> int:
    """How many leaders have made copies."""
    return len({(path.parent.name, path.name) for path in Path(place.store_url).glob(f"{place.name}/copies/*/*/*")})
