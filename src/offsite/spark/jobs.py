"""Tasks to outcomes: as many Spark jobs as it takes, usually one. Pure control over a `SparkJob` factory."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Generic

from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError, SparkFailed
from offsite.model.journal import decided, failed
from offsite.spark.job import SparkJob
from offsite.spark.progress_datagram import ProgressDatagram
from offsite.spark.runner import Failed, OnProgress, ResultT, TaskT
from offsite.spark.task_attempt import Envelope
from offsite.spark.task_journal import write_lines
from offsite.spark.task_outcomes import TaskOutcomes

_POISONED_TASK = re.compile(r"Task (\d+) in stage \S+ failed \d+ times")
_EXCEPTION_LINE = re.compile(r"^[:\s]*(?:[\w.]+(?:Error|Exception)|Reason|ExecutorLostFailure)\b.*", re.MULTILINE)

OpenJob = Callable[[Sequence[tuple[int, TaskT]]], SparkJob[TaskT, ResultT]]


class TaskJobs(Generic[TaskT, ResultT]):
    """Runs `tasks` until each has an outcome, or, unless `keep_going`, until one has failed for good."""

    def __init__(
        self,
        tasks: Sequence[TaskT],
        open_job: OpenJob[TaskT, ResultT],
        *,
        on_progress: OnProgress | None,
        keep_going: bool,
        clock: Clock,
    ) -> None:
        self._tasks = tasks
        self._open_job = open_job
        self._on_progress = on_progress
        self._keep_going = keep_going
        self._clock = clock
        self._started_s = clock.monotonic_s()
        self._board: TaskOutcomes[ResultT] = TaskOutcomes(len(tasks))

    def run(self) -> TaskOutcomes[ResultT]:
        """Each job settles at least one task or raises, so this ends."""
        self._show()
        while (indexes := self._board.open_tasks()) and not self._is_over():
            self._run_job([(index, self._tasks[index]) for index in indexes])
        return self._board

    def _run_job(self, tasks: Sequence[tuple[int, TaskT]]) -> None:
        job = self._open_job(tasks)
        try:
            self._follow(job)
        except OffsiteError:  # from whoever is told of the progress: there is nothing more to be done
            job.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # told apart and raised again there
            self._settle_poisoned(tasks, error)
        except BaseException:  # Ctrl-C
            job.cancel()
            raise

    def _follow(self, job: SparkJob[TaskT, ResultT]) -> None:
        for event in job.events():
            if isinstance(event, Envelope):
                _tell(event)
                self._board.take(event)
            elif isinstance(event, ProgressDatagram):
                self._board.feel(event)
                continue
            self._show()
            if self._is_over():
                job.cancel()
                return

    def _settle_poisoned(self, tasks: Sequence[tuple[int, TaskT]], error: Exception) -> None:
        """Spark gives up a whole job when one task ends its worker every time. That task has failed for good; the
        others get another job. Raises `SparkFailed` when it was not about a task."""
        failure = SparkFailed(f"the Spark job failed: {_reason(error)}", hint="run again with --verbose")
        failure.__cause__ = error
        poisoned = _POISONED_TASK.search(str(error))
        if poisoned is None:
            raise failure
        index = tasks[int(poisoned.group(1))][0]
        self._board.give_up(index, failure)
        failed("task_failed", task=index, error=failure.id, why=f"it ended its worker every time: {failure.message}")
        if left := self._board.open_tasks():
            decided("job_repeated", tasks=len(left), why=f"Spark gave them up together with task {index}")
        self._show()

    def _is_over(self) -> bool:
        return not self._keep_going and self._board.first_error() is not None

    def _show(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self._board.progress(elapsed_s=self._clock.monotonic_s() - self._started_s))


def _tell(envelope: Envelope[ResultT]) -> None:
    """Write what the attempt wrote in its worker, and how it ended where that was not well at once."""
    write_lines(envelope.journal, task=envelope.index)
    if isinstance(envelope.outcome, Failed):
        error, trace = envelope.outcome.error, envelope.outcome.trace
        why = trace.rpartition("\n")[2]
        failed("task_failed", task=envelope.index, attempts=envelope.number, error=error.id, why=why, trace=trace)
    elif envelope.number > 1:
        why = "an attempt before it failed or lost its worker"
        decided("task_repeated", task=envelope.index, attempts=envelope.number, why=why)


def _reason(error: Exception) -> str:
    """The line of a Py4J or Spark message that says what happened in the worker: the last that names an exception."""
    before_java_frames = str(error).split("Driver stacktrace:")[0]
    lines = [line.strip() for line in _EXCEPTION_LINE.findall(before_java_frames)]
    return lines[-1].lstrip(": ") if lines else str(error).strip().partition("\n")[0]
