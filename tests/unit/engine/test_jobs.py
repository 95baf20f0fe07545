from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from offsite.engine.job import ExecutorsChecked
from offsite.engine.jobs import TaskJobs
from offsite.engine.task_attempt import Envelope, attempt
from offsite.model.clock import SystemClock
from offsite.model.errors import ExecutorDiffers, KafkaUnreachable, SparkFailed
from tests.spark_tasks import double

POISONED = "Job aborted: Task 0 in stage 1.0 failed 4 times, most recent failure: ExecutorLostFailure (worker lost)"


class PlayedJob:
    """Hands out envelopes, then ends as told."""

    one_task_each = True

    def __init__(self, envelopes: Sequence[Envelope[Any]], error: Exception | None = None) -> None:
        self._envelopes, self._error = envelopes, error

    def events(self) -> Iterator[Envelope[Any]]:
        yield from self._envelopes
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="offsite")


def lose_the_broker(_: int) -> None:
    raise KafkaUnreachable("broker 1 is gone", hint="")


def envelope(index: int, function: Callable[[int], Any], *, number: int = 1) -> Envelope[Any]:
    return attempt(index, 1, function, is_last_attempt=True, number=number)


def run(*jobs: PlayedJob, tasks: int) -> None:
    played = iter(jobs)
    open_job: Any = lambda _: next(played)
    TaskJobs(list(range(tasks)), open_job, on_progress=None, keep_going=True, clock=SystemClock()).run()


def test_the_traceback_of_a_failed_task_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    run(PlayedJob([envelope(0, lose_the_broker, number=4)]), tasks=1)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    why = 'why="KafkaUnreachable: broker 1 is gone"'
    assert record.getMessage() == f"task_failed task=0 attempts=4 error=OFF-1501 {why}"
    assert "lose_the_broker" in (record.exc_text or "")


def test_a_task_that_was_repeated_is_a_line_even_when_no_note_came(caplog: pytest.LogCaptureFixture) -> None:
    run(PlayedJob([envelope(0, double, number=2), envelope(1, double)]), tasks=2)
    assert caplog.messages == ['task_repeated task=0 attempts=2 why="an earlier attempt failed or lost its worker"']


def test_a_task_that_ends_each_worker_is_named_and_so_is_the_job_that_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    run(PlayedJob([], RuntimeError(POISONED)), PlayedJob([envelope(1, double)]), tasks=2)
    failed, repeated = caplog.messages
    assert failed.startswith("task_failed task=0 error=OFF-")
    assert "the task ended its worker every time" in failed
    assert repeated == 'job_repeated tasks=1 why="Spark gave up these tasks together with task 0"'


def test_an_executor_that_can_run_nothing_ends_the_job_instead_of_task_after_task() -> None:
    said = f"{POISONED}\nError from python worker:\n  Failed to find any of these python binaries on the PATH:\n"
    with pytest.raises(SparkFailed, match="has no Python on its PATH"):
        run(PlayedJob([], RuntimeError(said)), tasks=2)


@pytest.mark.parametrize(
    "said",
    [
        "Error from python worker:\n  python3: Error while finding module specification (No module named 'offsite')",
        "python3: No module named offsite.engine.local.daemon",
    ],
)
def test_executors_without_offsite_are_told_as_such(said: str) -> None:
    with pytest.raises(SparkFailed, match="cannot import offsite"):
        run(PlayedJob([], RuntimeError(said)), tasks=1)


def test_a_module_of_another_name_is_not_taken_for_offsite() -> None:
    with pytest.raises(SparkFailed, match="the Spark job failed"):
        run(PlayedJob([], RuntimeError("ModuleNotFoundError: No module named 'offsiteless'")), tasks=1)


def test_a_task_whose_executors_were_killed_says_so() -> None:
    reason = "(executor 7 exited caused by one of the running tasks) Reason: Command exited with code 137"
    where = "Lost task 0.3 in stage 3.0 (TID 12) (127.0.0.1 executor 7)"
    said = f"Task 0 in stage 3.0 failed 4 times, most recent failure: {where}: ExecutorLostFailure {reason}\nDriver:"
    outcomes: list[Any] = []
    played = iter([PlayedJob([], RuntimeError(said)), PlayedJob([envelope(1, double)])])
    open_job: Any = lambda _: next(played)
    TaskJobs(
        [0, 1],
        open_job,
        on_progress=None,
        on_outcome=lambda _, outcome: outcomes.append(outcome),
        keep_going=True,
        clock=SystemClock(),
    ).run()
    assert outcomes[0].error.message == f"the executor that ran this task was lost at each of 4 attempts: {reason}"
    assert "memoryOverhead" in outcomes[0].error.hint


@pytest.mark.parametrize(
    "said",
    [
        "An error occurred: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.",
        "org.apache.spark.SparkException: Job 3 cancelled because SparkContext was shut down",
    ],
)
def test_a_spark_that_has_ended_by_itself_is_named(said: str) -> None:
    with pytest.raises(SparkFailed, match="Spark ended in the middle"):
        run(PlayedJob([], RuntimeError(said)), tasks=1)


class Cancelled(PlayedJob):
    is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


def test_what_the_caller_raises_ends_the_job_and_is_no_failure_of_spark() -> None:
    job = Cancelled([envelope(0, double), envelope(1, double)])

    def complain(_: Any) -> None:
        raise ValueError("the disk of the log is full")

    open_job: Any = lambda _: job
    jobs = TaskJobs(
        [0, 1], open_job, on_progress=None, on_outcome=lambda *_: complain(_), keep_going=True, clock=SystemClock()
    )
    with pytest.raises(ValueError, match="the disk of the log is full"):
        jobs.run()
    assert job.is_cancelled


def differ(_: int) -> None:
    raise ExecutorDiffers("the executor on b has offsite 0.0.9", hint="")


def test_an_executor_that_differs_ends_a_run_that_would_go_on() -> None:
    job = Cancelled([envelope(0, double), envelope(1, differ), envelope(2, differ)])
    open_job: Any = lambda _: job
    with pytest.raises(ExecutorDiffers):
        TaskJobs([0, 1, 2], open_job, on_progress=None, keep_going=True, clock=SystemClock()).run()
    assert job.is_cancelled


def test_that_there_are_executors_ends_the_waiting_for_one_though_nothing_arrives() -> None:
    clock, notes = Ticking(), list[str]()
    looks: list[Any] = [
        ExecutorsChecked(False),
        *[ExecutorsChecked(True)] * 30,
        ExecutorsChecked(False),
        envelope(0, double),
    ]
    open_job: Any = lambda _: PlayedJob(looks)
    TaskJobs(
        [0], open_job, on_progress=lambda now: notes.append(now.note), keep_going=True, clock=clock, patience_s=60
    ).run()
    assert not any(notes)


class Ticking(SystemClock):
    """A second passes whenever somebody looks."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        self.now_s += 1.0
        return self.now_s
