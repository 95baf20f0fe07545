"""SparkRunner on a local master: a real JVM and real Python workers."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from offsite.engine.runner import Done, Failed, Runner, RunProgress
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from offsite.model.errors import DamagedBatch, JavaMissing, KafkaUnreachable, SparkFailed
from tests import spark_tasks
from tests.passing_runner import interrupt_after
from tests.processes import is_alive, listening_addresses, processes_with
from tests.shared_spark import end_shared_spark
from tests.spark_tasks import Attempted

ROOT = Path(__file__).parents[3]
MARK = "OFFSITE_TEST_MARK"


@pytest.fixture(scope="module", autouse=True)
def importable_tasks() -> Iterator[None]:
    """Workers find offsite where it is installed; the functions of these tests only here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv(MARK, f"local-{os.getpid()}")
        yield


@pytest.fixture(scope="module")
def runner(importable_tasks: None) -> Iterator[Runner]:
    end_shared_spark()
    spark = SparkRunner(SparkChoice(master="local[2,4]"))
    try:
        spark.begin()
        yield spark
    finally:
        spark.close()


def test_results_come_in_the_order_of_tasks(runner: Runner) -> None:
    assert runner.run(list(range(20)), spark_tasks.double) == [2 * number for number in range(20)]


def test_no_tasks_need_no_spark() -> None:
    spark = SparkRunner(SparkChoice(master="spark://127.0.0.1:1"))
    assert spark.run([], spark_tasks.double) == []
    spark.close()


def test_workers_run_in_the_same_python(runner: Runner) -> None:
    assert set(runner.run([1, 2], spark_tasks.interpreter)) == {sys.executable}


def test_an_error_of_ours_arrives_with_its_message_and_hint(runner: Runner) -> None:
    with pytest.raises(DamagedBatch, match="batch 3 is torn") as raised:
        runner.run([1, 2, 3, 4], spark_tasks.tear_the_third)
    assert raised.value.hint == "verify"


def test_a_failed_task_leaves_the_others_running(runner: Runner) -> None:
    outcomes = runner.run_all([1, 2, 3, 4], spark_tasks.tear_the_third)
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Done)] == [1, 2, 4]
    (failed,) = [outcome for outcome in outcomes if isinstance(outcome, Failed)]
    assert isinstance(failed.error, DamagedBatch)
    assert "tear_the_third" in failed.trace


def test_an_error_that_lasts_is_not_tried_again(runner: Runner, tmp_path: Path) -> None:
    task = Attempted(log=tmp_path / "log")
    runner.run_all([task], spark_tasks.always_damaged)
    assert task.log.read_text().splitlines() == ["attempt"]


def test_an_error_that_may_pass_is_tried_again(runner: Runner, tmp_path: Path) -> None:
    assert runner.run([Attempted(log=tmp_path / "log", bad_attempts=3)], spark_tasks.unreachable_at_first) == [4]


def test_an_error_that_does_not_pass_is_raised_after_four_attempts(runner: Runner, tmp_path: Path) -> None:
    with pytest.raises(KafkaUnreachable, match="attempt 4"):
        runner.run([Attempted(log=tmp_path / "log", bad_attempts=9)], spark_tasks.unreachable_at_first)


def test_a_task_whose_worker_is_killed_is_tried_again(runner: Runner, tmp_path: Path) -> None:
    tasks = [Attempted(log=tmp_path / str(number), bad_attempts=number % 2) for number in range(6)]
    assert runner.run(tasks, spark_tasks.killed_at_first) == [1, 2, 1, 2, 1, 2]


def test_a_task_that_kills_each_worker_fails_alone(runner: Runner, tmp_path: Path) -> None:
    tasks = [Attempted(log=tmp_path / str(number), bad_attempts=99 * (number == 2)) for number in range(5)]
    outcomes = runner.run_all(tasks, spark_tasks.killed_at_first)
    assert [isinstance(outcome, Done) for outcome in outcomes] == [True, True, False, True, True]
    assert isinstance(outcomes[2], Failed)
    assert isinstance(outcomes[2].error, SparkFailed)


def test_a_foreign_error_says_what_it_was_and_not_what_it_quotes(runner: Runner) -> None:
    """Messages of others may quote records, and errors are logged."""
    with pytest.raises(SparkFailed, match=r"ZeroDivisionError$"):
        runner.run([1], spark_tasks.divide_by_zero)


def test_what_workers_decide_and_why_attempts_failed_reaches_the_log(
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


def test_progress_counts_tasks_up_to_all_of_them(runner: Runner) -> None:
    seen: list[RunProgress] = []
    runner.run_all([1, 2, 3, 4], spark_tasks.tear_the_third, on_progress=seen.append)
    assert [progress.tasks_done for progress in seen] == sorted(progress.tasks_done for progress in seen)
    assert (seen[-1].tasks_total, seen[-1].tasks_done, seen[-1].tasks_failed) == (4, 3, 1)
    assert 10 < seen[-1].worker_peak_rss_bytes >> 20 < 500


def test_progress_shows_what_a_running_task_has_moved(runner: Runner, tmp_path: Path) -> None:
    task = Attempted(log=tmp_path / "log")
    seen: list[RunProgress] = []

    def on_progress(progress: RunProgress) -> None:
        seen.append(progress)
        if progress.tasks_done == 0 and progress.moved_bytes > 0:
            task.log.with_suffix(".seen").touch()

    (moved_bytes,) = runner.run([task], spark_tasks.count_and_wait_for, on_progress=on_progress)
    assert task.log.with_suffix(".seen").exists()
    assert (seen[-1].moved_bytes, seen[-1].records) == (moved_bytes, moved_bytes // 100)


def test_a_run_that_is_broken_off_is_halted_to_the_last_worker(runner: Runner, tmp_path: Path) -> None:
    """Spark forgets a cancelled job at once; its worker goes on as if nothing had happened."""
    marker = tmp_path / "started"
    assert runner.run([1], spark_tasks.double) == [2]
    assert runner.halt(), "nothing is left running"
    with pytest.raises(KeyboardInterrupt):
        runner.run(
            [1],
            partial(spark_tasks.go_on_when_told, function=spark_tasks.double, marker=marker),
            on_progress=interrupt_after(marker),
        )
    assert runner.halt()
    assert not is_alive(int(marker.read_text()))
    assert runner.run([2], spark_tasks.double) == [4]


def test_spark_listens_on_loopback_only(runner: Runner) -> None:
    runner.run([1], spark_tasks.double)
    java = [pid for pid, command in processes_with(MARK, os.environ[MARK]).items() if "PythonGatewayServer" in command]
    addresses = {address for pid in java for address in listening_addresses(pid)}
    assert addresses
    assert addresses <= {"0100007F", "0000000000000000FFFF00000100007F"}


def test_the_gateway_secret_does_not_stay_in_the_environment(runner: Runner) -> None:
    runner.run([1], spark_tasks.double)
    assert not [name for name in os.environ if "GATEWAY" in name]


def test_after_the_jvm_was_killed_the_next_run_starts_another(runner: Runner, tmp_path: Path) -> None:
    def kill_java(_: RunProgress) -> None:
        if (tmp_path / "started").exists():
            for pid, command in processes_with(MARK, os.environ[MARK]).items():
                if "PythonGatewayServer" in command:
                    os.kill(pid, signal.SIGKILL)

    with pytest.raises(SparkFailed):
        runner.run([tmp_path / "started"], spark_tasks.wait_for_ever, on_progress=kill_java)
    assert runner.run([1], spark_tasks.double) == [2]


def test_without_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    spark = SparkRunner(SparkChoice(master="local[1]"))
    spark.begin()
    with pytest.raises(JavaMissing) as raised:
        spark.run([1], spark_tasks.double)
    assert "17" in raised.value.hint
    spark.close()
