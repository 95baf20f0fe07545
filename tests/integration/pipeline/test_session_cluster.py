"""SparkRunner on a real standalone cluster: one master, one worker, executors in processes of their own."""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.engine import job
from offsite.engine.rate_limits import RateLimits
from offsite.engine.rate_server import BURST_S
from offsite.engine.runner import Done, Runner, RunProgress
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from offsite.model.errors import BadOption, DamagedBatch, ExecutorDiffers, SparkFailed
from tests import spark_tasks
from tests.processes import processes_with
from tests.shared_spark import end_shared_spark
from tests.spark_cluster import QUICK_JVMS, standalone_cluster
from tests.spark_tasks import Attempted

ROOT = Path(__file__).parents[3]
MARK = "OFFSITE_TEST_MARK"
PRELOADED = "offsite.backup.copy"
READ_BYTES_PER_S = 1_000_000
SETTINGS = {**QUICK_JVMS, "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}

pytestmark = pytest.mark.xdist_group("spark-cluster")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a standalone master with one worker of two cores; its processes see the functions of these tests."""
    folder = tmp_path_factory.mktemp("cluster")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv(MARK, f"cluster-{os.getpid()}")
        with standalone_cluster(folder) as url:
            yield url


@pytest.fixture(scope="module")
def runner(master: str) -> Iterator[Runner]:
    end_shared_spark()
    limits = RateLimits(read_bytes_per_s=READ_BYTES_PER_S)
    spark = SparkRunner(SparkChoice(master=master, conf=SETTINGS), preload=[PRELOADED, "no.such", "."], limits=limits)
    try:
        yield spark
    finally:
        spark.close()


def test_executors_run_tasks_and_results_keep_their_order(runner: Runner) -> None:
    assert runner.run(list(range(10)), spark_tasks.double) == [2 * number for number in range(10)]


def test_executors_run_in_the_same_python(runner: Runner) -> None:
    assert set(runner.run([1, 2], spark_tasks.interpreter)) == {sys.executable}


def test_parents_of_workers_import_ahead_what_there_is(runner: Runner) -> None:
    assert runner.run([PRELOADED, "offsite.restore.write.bundle"], spark_tasks.is_imported) == [True, False]


def test_executors_with_another_offsite_are_given_nothing_to_do(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "__version__", "0.0.1")  # the driver's; executors have what is installed
    with pytest.raises(ExecutorDiffers, match=r"has offsite .*, and this one is 0\.0\.1"):
        runner.run([1, 2], spark_tasks.double)
    monkeypatch.undo()
    assert runner.run([1, 2], spark_tasks.double) == [2, 4]


def test_errors_cross_the_cluster(runner: Runner) -> None:
    with pytest.raises(DamagedBatch) as raised:
        runner.run([1, 2, 3], spark_tasks.tear_the_third)
    assert raised.value.hint == "verify"


def test_a_killed_worker_of_an_executor_is_replaced(runner: Runner, tmp_path: Path) -> None:
    tasks = [Attempted(log=tmp_path / str(number), bad_attempts=number % 2) for number in range(4)]
    assert runner.run(tasks, spark_tasks.killed_at_first) == [1, 2, 1, 2]


def test_what_workers_decide_and_why_attempts_failed_reaches_the_log_from_a_cluster_too(
    runner: Runner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="offsite")
    runner.run([Attempted(log=tmp_path / "log", bad_attempts=1)], spark_tasks.decide_and_be_unreachable_at_first)
    assert caplog.messages == [
        'hole task=0 topic=orders partition=3 why="attempt 1"',
        'attempt_failed task=0 attempt=1 why="KafkaUnreachable: attempt 1"',
        'hole task=0 topic=orders partition=3 why="attempt 2"',
        'task_repeated task=0 attempts=2 why="an earlier attempt failed or lost its worker"',
    ]
    assert "decide_and_be_unreachable_at_first" in (caplog.records[1].exc_text or "")


def test_executors_share_one_rate_and_a_killed_worker_holds_nobody_up(runner: Runner, tmp_path: Path) -> None:
    runner.run([1, 2], spark_tasks.double)  # workers are there
    seen: list[RunProgress] = []
    tasks = [Attempted(log=tmp_path / str(number), bad_attempts=number % 2) for number in range(4)]
    results = runner.run(tasks, spark_tasks.pay_and_be_killed_at_first, on_progress=seen.append)
    assert results == [spark_tasks.PAID_BYTES] * 4
    paid_bytes = 6 * spark_tasks.PAID_BYTES  # two attempts were killed after they had paid
    assert seen[-1].elapsed_s >= paid_bytes / READ_BYTES_PER_S - BURST_S
    assert seen[-1].limited_s > 0


def test_a_task_that_kills_each_worker_fails_alone_on_a_cluster_too(runner: Runner, tmp_path: Path) -> None:
    tasks = [Attempted(log=tmp_path / str(number), bad_attempts=99 * (number == 1)) for number in range(3)]
    outcomes = runner.run_all(tasks, spark_tasks.killed_at_first)
    assert [isinstance(outcome, Done) for outcome in outcomes] == [True, False, True]


def test_the_end_of_a_runner_gives_its_executors_back(master: str) -> None:
    spark = SparkRunner(
        SparkChoice(master=master, conf={**QUICK_JVMS, "spark.executor.memory": "512m", "spark.cores.max": "1"})
    )
    spark.begin()
    spark.close()
    marked = processes_with(MARK, os.environ[MARK])
    assert not [command for command in marked.values() if "--class org.apache.spark.api.python" in command]


@pytest.mark.soak
def test_after_a_start_that_failed_another_one_succeeds(master: str, runner: Runner) -> None:
    runner.close()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = {"spark.driver.port": str(taken.getsockname()[1]), "spark.port.maxRetries": "0"}
        bad = SparkRunner(SparkChoice(master=master, conf={**SETTINGS, **port}))
        with pytest.raises(SparkFailed, match="did not start"):
            bad.run([1], spark_tasks.double)
        assert bad.halt(), "nothing has run"
        bad.close()
    good = SparkRunner(SparkChoice(master=master, conf=SETTINGS))
    try:
        assert good.run([1], spark_tasks.double) == [2]
    finally:
        good.close()


def test_a_start_that_takes_for_ever_can_be_given_up(runner: Runner) -> None:
    runner.close()  # a process holds one Spark
    with socket.create_server(("127.0.0.1", 0)) as mute:
        spark = SparkRunner(SparkChoice(master=f"spark://127.0.0.1:{mute.getsockname()[1]}", conf=SETTINGS))
        spark.begin()
        accepted, _ = mute.accept()  # offsite's own look
        connected, _ = mute.accept()  # Spark's
        began_s = time.monotonic()
        spark.close()
        assert time.monotonic() - began_s < 20
        accepted.close()
        connected.close()


def test_a_master_that_does_not_answer_is_named_at_once() -> None:
    spark = SparkRunner(SparkChoice(master="spark://127.0.0.1:1"))
    started_s = time.monotonic()
    with pytest.raises(SparkFailed, match=r"spark://127\.0\.0\.1:1"):
        spark.run([1], spark_tasks.double)
    assert time.monotonic() - started_s < 10
    spark.close()


def test_a_master_url_without_a_port_is_refused() -> None:
    spark = SparkRunner(SparkChoice(master="spark://somewhere"))
    with pytest.raises(BadOption):
        spark.run([1], spark_tasks.double)
    spark.close()
