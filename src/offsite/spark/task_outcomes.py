"""What came back from a run so far: outcomes by task, and the progress they add up to. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from offsite.model.errors import OffsiteError
from offsite.spark.meter import Reading
from offsite.spark.progress_datagram import ProgressDatagram
from offsite.spark.runner import Done, Failed, ResultT, RunProgress
from offsite.spark.task_attempt import Envelope


class TaskOutcomes(Generic[ResultT]):
    """The first envelope of a task counts; a copy that Spark ran twice changes nothing."""

    def __init__(self, tasks_total: int) -> None:
        self._outcomes: list[Done[ResultT] | Failed | None] = [None] * tasks_total
        self._reading = Reading()
        self._running: dict[int, Reading] = {}
        self._tasks_done = 0
        self._tasks_failed = 0
        self._worker_peak_rss_bytes = 0

    def take(self, envelope: Envelope[ResultT]) -> None:
        if self._outcomes[envelope.index] is not None:
            return
        self._settle(envelope.index, envelope.outcome)
        self._reading = self._reading + envelope.reading
        self._worker_peak_rss_bytes = max(self._worker_peak_rss_bytes, envelope.peak_rss_bytes)

    def feel(self, datagram: ProgressDatagram) -> None:
        """What a running task has moved: shown until its envelope says it for good."""
        if self._outcomes[datagram.index] is None:
            self._running[datagram.index] = datagram.reading

    def give_up(self, index: int, error: OffsiteError) -> None:
        """Settle a task that could not even send an envelope."""
        self._settle(index, Failed(error=error, trace=""))

    def open_tasks(self) -> list[int]:
        """Indexes of the tasks without an outcome."""
        return [index for index, outcome in enumerate(self._outcomes) if outcome is None]

    def first_error(self) -> OffsiteError | None:
        if not self._tasks_failed:
            return None
        return next(outcome.error for outcome in self._outcomes if isinstance(outcome, Failed))

    def outcomes(self) -> Sequence[Done[ResultT] | Failed]:
        """Outcomes of the settled tasks, in the order of tasks."""
        return [outcome for outcome in self._outcomes if outcome is not None]

    def progress(self, *, elapsed_s: float) -> RunProgress:
        reading = sum(self._running.values(), self._reading)
        return RunProgress(
            tasks_total=len(self._outcomes),
            tasks_done=self._tasks_done,
            tasks_failed=self._tasks_failed,
            moved_bytes=reading.moved_bytes,
            records=reading.records,
            throttled_s=reading.throttled_ms / 1000,
            elapsed_s=elapsed_s,
            worker_peak_rss_bytes=self._worker_peak_rss_bytes,
        )

    def _settle(self, index: int, outcome: Done[ResultT] | Failed) -> None:
        self._outcomes[index] = outcome
        self._running.pop(index, None)
        if isinstance(outcome, Done):
            self._tasks_done += 1
        else:
            self._tasks_failed += 1
