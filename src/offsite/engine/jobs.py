"""Tasks to outcomes: as many Spark jobs as needed, usually one. Pure control over a `SparkJob` factory.

A task's outcome comes from the envelope alone. Progress datagrams only show how far a running task is. Datagrams may be
lost or late, so only the display uses them.

Without executors Spark itself would wait for ever, and tell only a log that nobody reads: the state is shown while it
lasts, and is an error when it lasts too long. Tasks that run much longer than the rest are named, with their machine.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Generic, TypeAlias

from offsite.engine.job import ExecutorsChecked, LostAttempt, SparkJob
from offsite.engine.meter import MeterReading, ProgressDatagram
from offsite.engine.runner import Done, Failed, OnOutcome, OnProgress, ResultT, RunProgress, TaskT
from offsite.engine.settings import MAX_ATTEMPTS
from offsite.engine.task_attempt import Envelope, write_lines
from offsite.engine.unfit_executor import unfit_executor
from offsite.model.clock import Clock, Wait
from offsite.model.errors import ExecutorDiffers, OffsiteError, SparkFailed
from offsite.model.journal import decided, failed, warned
from offsite.model.units import format_duration

TELL_AFTER_S = 10.0
"""Replaced executors, or executors that a cluster has yet to start, are not worth a message before."""

LONG_S = 30.0
"""Below this time a task may take as long as it likes."""
TIMES_LONGER = 4.0
KNOWN_MIN = 3
"""Tasks that must have ended before a running task can be unusual."""
_REMEMBERED = 1000
_DONE: Done[Any] = Done(value=None)
_POISONED_TASK = re.compile(r"Task (\d+) in stage \S+ failed \d+ times")
_LOST_EXECUTOR = re.compile(r"ExecutorLostFailure (\(executor .*)")
_STOPPED = re.compile(r"stopped SparkContext|SparkContext was shut down")
_EXCEPTION_LINE = re.compile(r"^[:\s]*(?:[\w.]+(?:Error|Exception)|Reason|ExecutorLostFailure)\b.*", re.MULTILINE)


class ExecutorOutage:
    """Watches for a cluster without executors. `patience_s`: seconds that the state may last."""

    def __init__(self, patience_s: float, clock: Clock) -> None:
        self._patience_s, self._clock = patience_s, clock
        self._wait: Wait | None = None
        self._is_told = False

    def mark_present(self) -> None:
        """Note an answer of an executor, or the end of the wait."""
        if self._wait is not None:
            self._wait.__exit__(None, None, None)
        self._wait, self._is_told = None, False

    def mark_absent(self) -> None:
        """Note a cluster without executors. Raises `SparkFailed` when the state has lasted too long."""
        if self._wait is None:
            self._wait = Wait(lambda: "the Spark cluster has provided no executor", since_s=self._clock.monotonic_s())
            self._wait.__enter__()
        for_s = self._for_s()
        if for_s >= self._patience_s:
            raise SparkFailed(
                f"the Spark cluster has provided no executor for {format_duration(for_s)}",
                hint="check that its workers are alive and have enough cores and memory for executors. Run the same "
                "command again: it continues where it stopped. To wait longer: --spark-conf "
                "spark.offsite.executors.wait=1h",
            )
        if for_s >= TELL_AFTER_S and not self._is_told:
            self._is_told = True
            warned("no_executor", why="the cluster has provided no executor; tasks wait", for_s=round(for_s))

    def note(self) -> str:
        """Return the state in words, while it lasts."""
        for_s = self._for_s()
        return (
            f"the Spark cluster has provided no executor for {format_duration(for_s)}" if for_s >= TELL_AFTER_S else ""
        )

    def _for_s(self) -> float:
        return 0.0 if self._wait is None else self._clock.monotonic_s() - self._wait.since_s


@dataclass(slots=True)
class _Running:
    host: str
    since_s: float
    is_logged: bool = False


class Stragglers:
    """Uses the datagrams of running tasks, which may be lost: for people only. Times are seconds since the run
    began."""

    def __init__(self, tasks: Sequence[object]) -> None:
        self._tasks = tasks
        self._took_s: deque[float] = deque(maxlen=_REMEMBERED)
        self._running: dict[int, _Running] = {}

    def note_progress(self, datagram: ProgressDatagram, *, at_s: float) -> None:
        """Note a datagram. Another host, or a first datagram, means a new attempt."""
        running = self._running.get(datagram.index)
        if running is None or running.host != datagram.host or datagram.begins:
            self._running[datagram.index] = _Running(datagram.host, at_s)

    def note_end(self, index: int, *, at_s: float) -> None:
        running = self._running.pop(index, None)
        if running is not None:
            self._took_s.append(at_s - running.since_s)

    def slowest(self, *, at_s: float) -> str:
        """Return the longest running task, in words; empty unless unusual. A task is logged once."""
        if len(self._took_s) < KNOWN_MIN or not self._running:
            return ""
        usual_s = median(self._took_s)
        index, slowest = min(self._running.items(), key=lambda running: running[1].since_s)
        for_s = at_s - slowest.since_s
        if for_s < max(LONG_S, TIMES_LONGER * usual_s):
            return ""
        name = task_name(self._tasks[index], index)
        if not slowest.is_logged:
            slowest.is_logged = True
            why = f"it has run for {format_duration(for_s)}, others took {format_duration(usual_s)}"
            warned("straggler", why=why, task=index, name=name, host=slowest.host)
        return f"{name} on {slowest.host} has run for {format_duration(for_s)}, others took {format_duration(usual_s)}"


def task_name(task: object, index: int) -> str:
    """Return the task's `title`, else its number."""
    return str(getattr(task, "title", "")) or f"task {index}"


class TaskOutcomes(Generic[ResultT]):
    """The outcomes of a run so far, by task, and the resulting progress. The first envelope of a task counts: where
    Spark ran a task twice, the second envelope changes nothing. Unless `keeps_values`, results of tasks are dropped."""

    def __init__(self, tasks_total: int, *, keeps_values: bool = True) -> None:
        self._keeps_values = keeps_values
        self._outcomes: list[Done[ResultT] | Failed | None] = [None] * tasks_total
        self._reading = MeterReading()
        self._running: dict[int, MeterReading] = {}
        self._tasks_done = 0
        self._tasks_failed = 0
        self._worker_peak_rss_bytes = 0
        self.has_lost_attempts = False
        """Whether a repeated attempt may continue unseen."""

    def take(self, envelope: Envelope[ResultT]) -> bool:
        """Take an envelope. Returns whether the envelope was the first of the task."""
        if self._outcomes[envelope.index] is not None:
            return False
        self._settle(envelope.index, envelope.outcome)
        self._reading = self._reading + envelope.reading
        self._worker_peak_rss_bytes = max(self._worker_peak_rss_bytes, envelope.peak_rss_bytes)
        return True

    def take_progress(self, datagram: ProgressDatagram) -> bool:
        """Take the figures of a running task, shown until the task's envelope brings the final figures. Returns False
        for a datagram behind the envelope."""
        if self._outcomes[datagram.index] is not None:
            return False
        self._running[datagram.index] = datagram.reading
        return True

    def give_up(self, index: int, error: OffsiteError) -> None:
        """Record `error` for a task that could not send an envelope."""
        self._settle(index, Failed(error=error, trace=""))

    def open_tasks(self) -> list[int]:
        """Return the indexes of tasks without an outcome."""
        return [index for index, outcome in enumerate(self._outcomes) if outcome is None]

    @property
    def has_failures(self) -> bool:
        return self._tasks_failed > 0

    def outcomes(self) -> Sequence[Done[ResultT] | Failed]:
        """Return the outcomes of settled tasks, in the order of tasks."""
        return [outcome for outcome in self._outcomes if outcome is not None]

    def progress(self, *, elapsed_s: float, note: str = "") -> RunProgress:
        reading = sum(self._running.values(), self._reading)
        return RunProgress(
            tasks_total=len(self._outcomes),
            tasks_done=self._tasks_done,
            tasks_failed=self._tasks_failed,
            moved_bytes=reading.moved_bytes,
            records=reading.records,
            throttled_s=reading.throttled_ms / 1000,
            limited_s=reading.limited_ms / 1000,
            elapsed_s=elapsed_s,
            worker_peak_rss_bytes=self._worker_peak_rss_bytes,
            note=note,
        )

    def _settle(self, index: int, outcome: Done[ResultT] | Failed) -> None:
        is_kept = self._keeps_values or isinstance(outcome, Failed)
        self._outcomes[index] = outcome if is_kept else _DONE
        self._running.pop(index, None)
        if isinstance(outcome, Done):
            self._tasks_done += 1
        else:
            self._tasks_failed += 1


Event: TypeAlias = Envelope[ResultT] | ProgressDatagram | ExecutorsChecked | LostAttempt | None
OpenJob = Callable[[Sequence[tuple[int, TaskT]]], SparkJob[TaskT, ResultT]]


class TaskJobs(Generic[TaskT, ResultT]):
    """Runs `tasks` until every task has an outcome, or, unless `keep_going`, until one has failed for good."""

    def __init__(  # noqa: PLR0913  # all by keyword but the work itself
        self,
        tasks: Sequence[TaskT],
        open_job: OpenJob[TaskT, ResultT],
        *,
        on_progress: OnProgress | None,
        on_outcome: OnOutcome[ResultT] | None = None,
        keep_going: bool,
        clock: Clock,
        patience_s: float = math.inf,
    ) -> None:
        """`patience_s`: seconds that a cluster may be without executors before an error."""
        self._tasks = tasks
        self._open_job = open_job
        self._on_progress = on_progress
        self._on_outcome = on_outcome
        self._keep_going = keep_going
        self._clock = clock
        self._started_s = clock.monotonic_s()
        self._outcomes: TaskOutcomes[ResultT] = TaskOutcomes(len(tasks), keeps_values=on_outcome is None)
        self._stragglers = Stragglers(tasks)
        self._outage = ExecutorOutage(patience_s, clock)

    def run(self) -> TaskOutcomes[ResultT]:
        """Return the outcomes of all tasks. Every job gives at least one task an outcome or raises, so the loop
        ends."""
        self._show()
        try:
            while (indexes := self._outcomes.open_tasks()) and not self._is_over():
                self._run_job([(index, self._tasks[index]) for index in indexes])
        finally:
            self._outage.mark_present()
        return self._outcomes

    def _run_job(self, tasks: Sequence[tuple[int, TaskT]]) -> None:
        """Run one job. An error of a progress or outcome callback ends the job, and is raised; Ctrl-C too."""
        job = self._open_job(tasks)
        try:
            for event in self._events(job, tasks):
                if self._take(event):
                    self._show()
                if self._is_over():
                    job.cancel()
                    return
        except BaseException:
            job.cancel()
            raise

    def _events(self, job: SparkJob[TaskT, ResultT], tasks: Sequence[tuple[int, TaskT]]) -> Iterator[Event[ResultT]]:
        """Yield the job's events. An exception of Spark either settles a task, or is raised as an error of offsite."""
        try:
            yield from job.events()
        except Exception as error:  # noqa: BLE001  # classified, and raised again by the callee
            self._settle_poisoned(tasks if job.one_task_each else (), error)

    def _take(self, event: Event[ResultT]) -> bool:
        """Handle an event. Returns whether the display has changed."""
        now_s = self._elapsed_s()
        match event:
            case Envelope():
                self._take_envelope(event, now_s)
            case ProgressDatagram():
                self._outage.mark_present()
                if self._outcomes.take_progress(event):
                    self._stragglers.note_progress(event, at_s=now_s)
                return False
            case ExecutorsChecked(has_executors=True):
                self._outage.mark_present()
            case ExecutorsChecked():
                self._outage.mark_absent()
            case LostAttempt():
                self._outcomes.has_lost_attempts = True
        return True

    def _take_envelope(self, envelope: Envelope[ResultT], now_s: float) -> None:
        """Take an envelope. Raises `ExecutorDiffers` at once, because such an executor is the fastest, and would refuse
        most tasks."""
        _tell(envelope)
        self._outage.mark_present()
        self._stragglers.note_end(envelope.index, at_s=now_s)
        if isinstance(envelope.outcome, Failed) and isinstance(envelope.outcome.error, ExecutorDiffers):
            raise envelope.outcome.error
        if self._outcomes.take(envelope) and self._on_outcome is not None:
            self._on_outcome(envelope.index, envelope.outcome)

    def _settle_poisoned(self, tasks: Sequence[tuple[int, TaskT]], error: Exception) -> None:
        """Record the failure of the task that ended its worker at every attempt; raise `SparkFailed` when the error
        concerns no task. Spark gives up the whole job; tasks without an outcome get another job."""
        if (unfit := unfit_executor(str(error))) is not None:
            raise unfit from error
        failure = _failure(error)
        failure.__cause__ = error
        poisoned = _POISONED_TASK.search(str(error))
        if poisoned is None or not tasks:  # in a shuffle, several Spark tasks read one offsite task
            raise failure
        index = tasks[int(poisoned.group(1))][0]
        self._outcomes.give_up(index, failure)
        if self._on_outcome is not None:
            self._on_outcome(index, Failed(error=failure, trace=""))
        failed(
            "task_failed", task=index, error=failure.id, why=f"the task ended its worker every time: {failure.message}"
        )
        if open_tasks := self._outcomes.open_tasks():
            decided("job_repeated", tasks=len(open_tasks), why=f"Spark gave up these tasks together with task {index}")
        self._show()

    def _is_over(self) -> bool:
        return not self._keep_going and self._outcomes.has_failures

    def _show(self) -> None:
        if self._on_progress is not None:
            now_s = self._elapsed_s()
            note = self._outage.note() or self._stragglers.slowest(at_s=now_s)
            self._on_progress(self._outcomes.progress(elapsed_s=now_s, note=note))

    def _elapsed_s(self) -> float:
        return self._clock.monotonic_s() - self._started_s


def _tell(envelope: Envelope[ResultT]) -> None:
    """Write the journal of the attempt, and the end of the attempt unless it succeeded at once."""
    write_lines(envelope.journal, task=envelope.index)
    if isinstance(envelope.outcome, Failed):
        error, trace = envelope.outcome.error, envelope.outcome.trace
        why = trace.rpartition("\n")[2]
        failed("task_failed", task=envelope.index, attempts=envelope.number, error=error.id, why=why, trace=trace)
    elif envelope.number > 1:
        why = "an earlier attempt failed or lost its worker"
        decided("task_repeated", task=envelope.index, attempts=envelope.number, why=why)


def _failure(error: Exception) -> SparkFailed:
    if _STOPPED.search(str(error)):
        return SparkFailed(
            "Spark ended in the middle of a job",
            hint="an application ends when executors fail repeatedly, or when somebody kills it: check the logs of "
            "its executors and its master, then run again: the command continues from there",
        )
    if lost := _LOST_EXECUTOR.search(str(error)):
        return SparkFailed(
            f"the executor that ran this task was lost at each of {MAX_ATTEMPTS} attempts: {lost[1].strip()}",
            hint="exit code 137 means that the executor was killed: give it more memory "
            "(spark.executor.memoryOverhead), or find out who kills it; then run again: the command continues "
            "from there",
        )
    return SparkFailed(f"the Spark job failed: {_reason(error)}", hint="run again with --verbose")


def _reason(error: Exception) -> str:
    """Return the line of a Py4J or Spark message with the worker's error: the last line with an exception."""
    before_java_frames = str(error).split("Driver stacktrace:")[0]
    lines = [line.strip() for line in _EXCEPTION_LINE.findall(before_java_frames)]
    return lines[-1].lstrip(": ") if lines else str(error).strip().partition("\n")[0]
