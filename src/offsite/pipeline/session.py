"""Spark, started and stopped: the only file that builds a SparkContext.

Owns the life of Spark in this process and runs tasks on it. pyspark is imported inside functions only, so that
commands which copy nothing stay quick. Must never hold data or secrets: Spark sees tasks, functions and results.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import OffsiteError, SparkFailed
from offsite.pipeline.board import Board
from offsite.pipeline.job import SparkJob
from offsite.pipeline.runner import Done, Failed, OnProgress, ResultT, TaskT

if TYPE_CHECKING:
    from pyspark import SparkContext

MAX_ATTEMPTS = 4
"""Attempts at one task before it has failed for good: Spark's own default on a cluster."""

_POISONED_TASK = re.compile(r"Task (\d+) in stage \S+ failed \d+ times")


class SparkRunner:
    """Runs tasks on Spark: in this machine's cores unless `master` names a cluster. One at a time in a process."""

    def __init__(
        self,
        *,
        master: str | None = None,
        app_name: str = "offsite",
        driver_memory_mib: int = 512,
        clock: Clock | None = None,
    ) -> None:
        self._master = master or f"local[{os.cpu_count() or 1},{MAX_ATTEMPTS}]"
        self._app_name = app_name
        self._driver_memory_mib = driver_memory_mib
        self._clock = clock or SystemClock()
        self._starter: threading.Thread | None = None
        self._context: SparkContext | None = None
        self._start_error: OffsiteError | None = None
        self._jobs = 0

    def begin(self) -> None:
        if self._starter is None:
            self._starter = threading.Thread(target=self._start, name="offsite-spark-start", daemon=True)
            self._starter.start()

    def run(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        *,
        on_progress: OnProgress | None = None,
    ) -> list[ResultT]:
        board = self._run(tasks, function, on_progress, keep_going=False)
        if (error := board.first_error()) is not None:
            raise error
        return [outcome.value for outcome in board.outcomes() if isinstance(outcome, Done)]

    def run_all(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        *,
        on_progress: OnProgress | None = None,
    ) -> list[Done[ResultT] | Failed]:
        return list(self._run(tasks, function, on_progress, keep_going=True).outcomes())

    def close(self) -> None:
        if self._starter is not None:
            self._starter.join()
        if self._context is not None:
            self._context.stop()
            self._context = None

    def _run(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        on_progress: OnProgress | None,
        *,
        keep_going: bool,
    ) -> Board[ResultT]:
        board: Board[ResultT] = Board(len(tasks))
        started_s = self._clock.monotonic_s()

        def show() -> None:
            if on_progress is not None:
                on_progress(board.progress(elapsed_s=self._clock.monotonic_s() - started_s))

        show()
        while (indexes := board.open_tasks()) and (keep_going or board.first_error() is None):
            self._run_job([(index, tasks[index]) for index in indexes], function, board, show, keep_going=keep_going)
        show()
        return board

    def _run_job(
        self,
        tasks: Sequence[tuple[int, TaskT]],
        function: Callable[[TaskT], ResultT],
        board: Board[ResultT],
        show: Callable[[], None],
        *,
        keep_going: bool,
    ) -> None:
        """One Spark job. Spark gives up a whole job when one task kills its worker every time: that task is settled
        as failed here, and the caller runs another job with the rest."""
        self._jobs += 1
        job = SparkJob(
            self._ready_context(), tasks, function, group=f"offsite-{self._jobs}", max_attempts=MAX_ATTEMPTS
        )
        try:
            for envelope in job.envelopes():
                if envelope is not None:
                    board.take(envelope)
                show()
                if not keep_going and board.first_error() is not None:
                    job.cancel()
                    return
        except BaseException as error:
            job.cancel()
            if not isinstance(error, Exception):
                raise
            poisoned, failure = _explain(error)
            if poisoned is None:
                raise failure from error
            board.give_up(tasks[poisoned][0], failure)

    def _ready_context(self) -> SparkContext:
        self.begin()
        assert self._starter is not None
        self._starter.join()
        if self._start_error is not None:
            raise self._start_error
        assert self._context is not None
        return self._context

    def _start(self) -> None:
        try:
            self._context = self._build_context()
        except Exception as error:
            self._start_error = SparkFailed(f"Spark did not start: {_last_line(str(error))}", hint="offsite doctor")
            self._start_error.__cause__ = error

    def _build_context(self) -> SparkContext:
        from pyspark import SparkConf, SparkContext

        os.environ["PYSPARK_PYTHON"] = sys.executable
        conf = SparkConf().setMaster(self._master).setAppName(self._app_name)
        conf.set("spark.ui.enabled", "false")
        conf.set("spark.driver.memory", f"{self._driver_memory_mib}m")
        conf.set("spark.task.maxFailures", str(MAX_ATTEMPTS))
        if self._master.startswith("local"):
            conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
        return SparkContext(conf=conf)


def _explain(error: Exception) -> tuple[int | None, SparkFailed]:
    """Which task of the job made Spark give up, if it was one, and the error to show for it."""
    text = str(error)
    found = _POISONED_TASK.search(text)
    failure = SparkFailed(f"the Spark job failed: {_last_line(text)}", hint="look at the worker's log")
    return (int(found.group(1)) if found else None), failure


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "Exception" in line or "Error" in line), lines[0] if lines else "")
