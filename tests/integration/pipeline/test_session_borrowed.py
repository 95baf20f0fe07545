"""SparkRunner on a SparkContext that the program has already."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors.exceptions.captured import install_exception_handler
from pyspark.sql import SparkSession

from offsite.engine.runner import Done, Failed, RunProgress
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from offsite.model.errors import BadOption, DamagedBatch, SparkFailed
from offsite.model.secret import Secret
from tests import spark_tasks
from tests.own_session import own_session
from tests.passing_runner import interrupt_after
from tests.processes import wait_until
from tests.shared_spark import end_shared_spark
from tests.spark_tasks import Attempted

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module", autouse=True)
def importable_tasks() -> Iterator[None]:
    """Workers find offsite where it is installed; the functions of these tests only here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        yield


@pytest.fixture(scope="module")
def session(importable_tasks: None) -> Iterator[SparkSession]:
    with own_session("local[2]") as session:
        yield session


@pytest.fixture
def runner(session: SparkSession) -> Iterator[SparkRunner]:
    spark = SparkRunner(context=session.sparkContext)
    spark.begin()
    yield spark
    spark.close()


def test_a_spark_of_our_own_after_theirs_still_tells_errors_apart(tmp_path: Path) -> None:
    """Theirs leaves a hook in Py4J that needs classes of theirs."""
    end_shared_spark()
    install_exception_handler()
    own = SparkRunner(SparkChoice(master="local[1,2]"))
    try:
        outcomes = own.run_all([Attempted(log=tmp_path / "log", bad_attempts=99)], spark_tasks.killed_at_first)
    finally:
        own.close()
    assert isinstance(outcomes[0], Failed)
    assert isinstance(outcomes[0].error, SparkFailed)


def test_a_session_that_speculates_is_refused(session: SparkSession) -> None:
    """Its settings are read when it starts: changing them on a running one is of no use, but to this test."""
    context = session.sparkContext
    context._conf.set("spark.speculation", "true")
    try:
        with pytest.raises(BadOption, match="speculation"):
            SparkRunner(context=context).run([1], spark_tasks.double)
    finally:
        context._conf.set("spark.speculation", "false")


def test_the_context_is_used_and_left_as_it_was(session: SparkSession) -> None:
    python = session.sparkContext.pythonExec
    runner = SparkRunner(context=session.sparkContext)
    assert runner.run([1, 2, 3], spark_tasks.double) == [2, 4, 6]
    runner.close()
    assert session.sparkContext.pythonExec == python
    assert session.range(5).count() == 5


def test_an_error_arrives_as_itself_though_this_spark_tries_a_task_once(runner: SparkRunner) -> None:
    with pytest.raises(DamagedBatch, match="batch 3 is torn"):
        runner.run([1, 2, 3, 4], spark_tasks.tear_the_third)


def test_that_a_run_that_was_broken_off_has_ended_is_not_claimed(session: SparkSession, tmp_path: Path) -> None:
    """Its workers are not ours to kill, and Spark does not tell when they stop."""
    runner, marker = SparkRunner(context=session.sparkContext), tmp_path / "started"
    with pytest.raises(KeyboardInterrupt):
        runner.run(
            [1],
            partial(spark_tasks.go_on_when_told, function=spark_tasks.double, marker=marker),
            on_progress=interrupt_after(marker),
        )
    assert not runner.halt()
    marker.with_suffix(".go").touch()
    runner.close()


def test_a_task_that_kills_its_worker_fails_alone(runner: SparkRunner, tmp_path: Path) -> None:
    tasks = [Attempted(log=tmp_path / str(number), bad_attempts=99 * (number == 1)) for number in range(3)]
    outcomes = runner.run_all(tasks, spark_tasks.killed_at_first)
    assert [isinstance(outcome, Done) for outcome in outcomes] == [True, False, True]
    assert isinstance(outcomes[1], Failed)
    assert isinstance(outcomes[1].error, SparkFailed)


def test_a_session_in_one_jvm_takes_secrets_whatever_its_address_is(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's own default is the machine's name in the network, and no encryption: nothing goes over that network."""
    monkeypatch.setattr("offsite.engine.sessions.session.is_private", lambda _: False)
    spark = SparkRunner(context=session.sparkContext)
    try:
        assert spark.run([3], partial(spark_tasks.length_of, secret=Secret("hunter2"))) == [10]
    finally:
        spark.close()


def test_two_runs_on_one_context_do_not_end_each_other(session: SparkSession, tmp_path: Path) -> None:
    marker = tmp_path / "started"
    waiting = partial(spark_tasks.go_on_when_told, function=spark_tasks.double, marker=marker)
    runners = [SparkRunner(context=session.sparkContext) for _ in range(2)]
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(runners[0].run, [1], waiting)
        wait_until(marker.exists, "the first run to be at work")
        with pytest.raises(DamagedBatch):
            runners[1].run([3], spark_tasks.tear_the_third)
        marker.with_suffix(".go").touch()
        assert other.result() == [2]
    for each in runners:
        each.close()


def test_a_run_that_ends_before_its_job_was_submitted_does_not_run_later(session: SparkSession, tmp_path: Path) -> None:
    context, runner = session.sparkContext, SparkRunner(context=session.sparkContext)
    assert runner.run([1], spark_tasks.double) == [2]

    def interrupt(now: RunProgress) -> None:
        if now.elapsed_s > 0.2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run([SlowToPickle(tmp_path / "ran")], spark_tasks.touch_slowly, on_progress=interrupt)
    wait_until(lambda: not context.statusTracker().getActiveJobsIds(), "jobs to end")
    runner.close()
    assert not (tmp_path / "ran").exists()


@dataclass
class SlowToPickle:
    path: Path

    def __reduce__(self) -> tuple[type[Path], tuple[str]]:
        time.sleep(2)
        return Path, (str(self.path),)
