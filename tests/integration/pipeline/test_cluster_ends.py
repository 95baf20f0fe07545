"""What becomes of a run on a standalone Spark cluster when its driver, its master, or all its workers go, when a disk
is full, and when clocks differ: it goes on, or it ends; the next run has everything, once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from offsite.sandbox import SandboxInfo
from tests import spark_tasks
from tests.inline_runner import InlineRunner
from tests.integration.cluster.trial import Produced, Trial
from tests.integration.e2e.command import start, succeed
from tests.integration.e2e.site import new_name
from tests.integration.e2e.test_crash import small_disk
from tests.integration.pipeline.cluster_losses import (
    CLIENT_ID,
    Running,
    cluster_runner,
    cluster_trial,
    settled,
    slow_source,
    slow_target,
    wait_for_data,
    writer_of,
)
from tests.processes import processes_with, wait_until
from tests.worker_cluster import Machine, Part, WorkerCluster, spark_defaults, worker_cluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

DAY_S = 86_400
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
    environment = {**spark_defaults(trial.folder), MARK: str(trial.folder)}
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


def test_a_run_goes_on_when_the_master_is_killed_and_started_again(broker: SandboxInfo, tmp_path: Path) -> None:
    """One that recovers. One that does not kills the executors of applications that it does not know."""
    with worker_cluster(tmp_path) as workers, cluster_runner(workers.url) as runner:
        trial = cluster_trial(broker, tmp_path, runner)
        made = trial.produced(random.Random(1), transactions=8, batch=150)
        trial.back_up(made.topic)
        target = new_name(made.topic)
        again = partial(trial.restore_once, made.topic, target, offsets="preserve")
        with slow_target(trial, made), Running(again) as run:
            wait_for_data(trial, target)
            workers.master.kill()
            workers.master.start()
            writer_of(trial, workers, target, 0).kill_executors()
        assert run.result().verified
        trial.assert_whole(made, trial.read(target))
        assert trial.offsets(target) == trial.offsets(made.topic)
        assert trial.back_up_once(made.topic).complete  # the next run finds a cluster


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_run_goes_on_without_an_executor_whose_disk_is_full(broker: SandboxInfo, tmp_path: Path, when: str) -> None:
    with small_disk(tmp_path / "disk", size_mib=2) as disk, worker_cluster(tmp_path) as workers:
        machine = workers.workers[0]
        machine.environment = {**machine.environment, "SPARK_LOCAL_DIRS": str(disk)}
        machine.command[machine.command.index("--work-dir") + 1] = str(disk)
        machine.restart()
        if when == "before":
            fill(disk)
        with cluster_runner(workers.url) as runner:
            trial = cluster_trial(broker, tmp_path, runner)
            made = trial.produced(random.Random(1), transactions=8, batch=150)
            trial.back_up(made.topic)
            target = new_name(made.topic)
            again = partial(trial.restore_once, made.topic, target, offsets="preserve")
            with slow_target(trial, made), Running(again) as run:
                wait_for_data(trial, target)
                fill(disk)
            assert run.result().verified
            trial.assert_whole(made, trial.read(target))
            assert bool(machine.processes(Part.EXECUTOR)) == (when == "meanwhile")


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "ballast").open("ab", buffering=0) as ballast:
        while ballast.write(b"x" * 4096):
            pass
    assert os.statvfs(disk).f_bavail == 0


def test_clocks_of_executors_decide_nothing(broker: SandboxInfo, tmp_path: Path) -> None:
    """One of them is two days behind, another one two days ahead."""
    with worker_cluster(tmp_path) as workers, ExitStack() as stack:
        for machine, days in zip(workers.workers, (-2, 2), strict=False):
            skew(machine, by_s=days * DAY_S, folder=tmp_path)
        runner = stack.enter_context(cluster_runner(workers.url))
        clocks = runner.run(range(18), spark_tasks.clock_s)
        now_s = time.time()
        assert {round((each - now_s) / DAY_S) for each in clocks} == {-2, 0, 2}
        trial = cluster_trial(broker, tmp_path, runner)
        made = trial.produced(random.Random(1), transactions=8, batch=150)
        began_ms = time.time_ns() // 1_000_000
        with slow_source(trial, made), Running(lambda: trial.back_up_once(made.topic)) as run:
            wait_until(lambda: any(machine.processes(Part.PYTHON) for machine in workers.workers), "workers")
            workers.workers[1].kill_executors()
        assert run.result().complete
        trial.back_up(made.topic)
        commits = trial.repository.backup(f"of-{made.topic}").state().history
        assert all(0 <= each.committed_at_ms - began_ms < 600_000 for each in commits)
        for offsets in ("translate", "preserve"):
            target = new_name(made.topic)
            assert trial.restore_once(made.topic, target, offsets=offsets).verified
            trial.assert_whole(made, trial.read(target))
        trial.assert_whole(made, trial.exported(made.topic))


def skew(machine: Machine, *, by_s: int, folder: Path) -> None:
    """Every Python that the machine starts from now on takes the time for so much later. What the kernel stamps on
    files stays as it is."""
    place = folder / machine.name
    place.mkdir()
    lines = [
        "import time",
        "now, now_ns = time.time, time.time_ns",
        f"time.time = lambda: now() + {by_s}",
        f"time.time_ns = lambda: now_ns() + {by_s} * 10**9",
    ]
    (place / "sitecustomize.py").write_text("\n".join(lines))
    machine.environment = {**machine.environment, "PYTHONPATH": f"{place}:{machine.environment['PYTHONPATH']}"}
    machine.restart()
