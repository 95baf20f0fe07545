"""What becomes of a run on a standalone Spark cluster when a part of the cluster goes: executors, machines, the master,
the driver. Each once, at the moment that matters; by chance and again and again: `test_cluster_soak`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.engine.runner import Runner
from offsite.sandbox import SandboxInfo
from tests.integration.cluster.trial import Produced, Trial
from tests.integration.e2e.site import new_name
from tests.integration.pipeline.cluster_losses import (
    Running,
    attempts_at,
    cluster_runner,
    cluster_trial,
    settled,
    slow_source,
    slow_target,
    wait_for_data,
    writer_of,
)
from tests.processes import wait_until
from tests.worker_cluster import Part, WorkerCluster, worker_cluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

SLOW_S = 4.0
QUIET_S = 2.0
"""A woken writer sends, or stops, within one tenth of it."""


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerCluster]:
    with worker_cluster(tmp_path_factory.mktemp("workers")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def runner(workers: WorkerCluster) -> Iterator[Runner]:
    with cluster_runner(workers.url) as spark:
        yield spark


@pytest.fixture
def trial(broker: SandboxInfo, tmp_path: Path, runner: Runner, workers: WorkerCluster) -> Iterator[Trial]:
    yield cluster_trial(broker, tmp_path, runner)
    workers.mend()


@pytest.fixture
def made(trial: Trial) -> Produced:
    return trial.produced(random.Random(1), transactions=8, batch=150)


def test_a_backup_goes_on_without_an_executor_that_is_killed(
    trial: Trial, workers: WorkerCluster, made: Produced
) -> None:
    with slow_source(trial, made, slow_s=SLOW_S), Running(lambda: trial.back_up_once(made.topic)) as run:
        machine = workers.workers[0]
        wait_until(lambda: len(machine.processes(Part.PYTHON)) > 1, "a Python worker at work")
        assert machine.kill_executors()
    assert run.result().complete
    target = new_name(made.topic)
    trial.restore(made.topic, target, offsets="preserve")
    trial.assert_whole(made, trial.read(target))
    assert trial.offsets(target) == trial.offsets(made.topic)


def test_a_restore_that_preserves_offsets_goes_on_without_an_executor_that_is_killed(
    trial: Trial, workers: WorkerCluster, made: Produced
) -> None:
    trial.back_up(made.topic)
    target = new_name(made.topic)
    with (
        slow_target(trial, made, slow_s=SLOW_S),
        Running(lambda: trial.restore_once(made.topic, target, offsets="preserve")) as run,
    ):
        wait_for_data(trial, target)
        assert writer_of(trial, workers, target, 0).kill_executors()
    assert run.result().verified
    trial.assert_whole(made, trial.read(target))
    assert trial.offsets(target) == trial.offsets(made.topic)
    assert len(attempts_at(trial, target, 0)) > 1


@pytest.mark.parametrize("offsets", [pytest.param("translate", marks=pytest.mark.soak), "preserve"])
def test_a_machine_that_wakes_after_the_end_of_a_restore_writes_nothing_more(
    trial: Trial, workers: WorkerCluster, made: Produced, offsets: str
) -> None:
    trial.back_up(made.topic)
    target = new_name(made.topic)
    with (
        slow_target(trial, made, slow_s=SLOW_S),
        Running(lambda: trial.restore_once(made.topic, target, offsets=offsets)) as run,
    ):
        wait_for_data(trial, target)
        machine = writer_of(trial, workers, target, 0)
        sleeping = int(attempts_at(trial, target, 0)[-1])
        machine.stop()
        assert run.result().verified
    before = settled(trial, target, for_s=0)
    machine.wake()
    wait_until(lambda: sleeping not in machine.processes(), "the woken writer to end")
    assert settled(trial, target, for_s=QUIET_S) == before
    trial.assert_whole(made, trial.read(target))
