"""What becomes of a run on a standalone Spark cluster when its driver, its master, or all its workers go, when a disk
is full, and when clocks differ: it goes on, or it ends; the next run has everything, once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.sandbox import SandboxInfo
from tests.inline_runner import InlineRunner
from tests.integration.cluster.trial import Produced, Trial
from tests.integration.e2e.command import start, succeed
from tests.integration.e2e.site import new_name
from tests.integration.pipeline.cluster_losses import (
    CLIENT_ID,
    cluster_trial,
    settled,
    slow_target,
    wait_for_data,
)
from tests.processes import processes_with, wait_until
from tests.worker_cluster import QUICKLY_NOTICED, Part, WorkerCluster, worker_cluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

MARK = "OFFSITE_CLUSTER_TEST"
WORKERS_END_WITHIN_S = 20.0
"""Of a driver that was killed. Seen: under 3 s on an idle machine."""


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerCluster]:
    with worker_cluster(tmp_path_factory.mktemp("workers")) as cluster:
        yield cluster


@pytest.fixture
def trial(broker: SandboxInfo, tmp_path: Path) -> Trial:
    return cluster_trial(broker, tmp_path, InlineRunner())


@pytest.fixture
def made(trial: Trial) -> Produced:
    made = trial.produced(random.Random(1), transactions=8, batch=150)
    trial.back_up(made.topic)
    return made


@pytest.mark.parametrize(("offsets", "with_jvm"), [("translate", False), ("preserve", True)])
def test_a_killed_driver_leaves_no_worker_and_the_next_run_goes_on_where_it_was(
    trial: Trial, workers: WorkerCluster, made: Produced, offsets: str, *, with_jvm: bool
) -> None:
    target = new_name(made.topic)
    command = restore_command(trial, workers, made, target, offsets)
    environment = spark_environment(trial.folder)
    with slow_target(trial, made):
        driver = start(*command, environment=environment)
        wait_for_data(trial, target)
        assert any(machine.processes(Part.PYTHON) for machine in workers.workers)
        killed_s = time.monotonic()
        if with_jvm:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.kill()
        driver.communicate()
        wait_until(
            lambda: not any(machine.processes(part) for machine in workers.workers for part in Part),
            "executors and Python workers to end",
            limit_s=WORKERS_END_WITHIN_S,
        )
        print(f"executors and workers ended {time.monotonic() - killed_s:.1f} s after their driver")  # noqa: T201
        wait_until(lambda: not processes_with(MARK, str(trial.folder)), "the driver's JVM to end")
    before = settled(trial, target, for_s=1)
    assert sum(before) < sum(trial.cluster.end(made.topic, number) for number in range(3)), "it was done already"
    assert succeed(*command, environment=environment)["verified"]
    trial.assert_whole(made, trial.read(target))
    if offsets == "preserve":
        assert trial.offsets(target) == trial.offsets(made.topic)


def restore_command(trial: Trial, workers: WorkerCluster, made: Produced, target: str, offsets: str) -> list[object]:
    kafka = trial.folder / "kafka.properties"
    kafka.write_text(f"client.id={CLIENT_ID}\n")
    ends = ["--repo", trial.folder / "repository", "--bootstrap", trial.cluster.bootstrap, "--kafka-config", kafka]
    what = ["--backup", f"of-{made.topic}", "--rename", f"{made.topic}={target}", "--offsets", offsets, "--yes"]
    return ["restore", "run", *ends, *what, "--spark-master", workers.url]


def spark_environment(folder: Path) -> dict[str, str]:
    """What the command's Spark goes by."""
    (folder / "conf").mkdir(exist_ok=True)
    lines = [f"{name} {value}" for name, value in QUICKLY_NOTICED.items()]
    (folder / "conf" / "spark-defaults.conf").write_text("\n".join(lines))
    return {"SPARK_CONF_DIR": str(folder / "conf"), "SPARK_LOCAL_IP": "127.0.0.1", MARK: str(folder)}
