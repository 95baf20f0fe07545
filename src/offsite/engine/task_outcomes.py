"""The outcomes of a run so far, task by task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

from offsite.engine.meter import MeterReading
from offsite.engine.progress_datagram import ProgressDatagram
from offsite.engine.runner import Done, Failed, ResultT, RunProgress
from offsite.engine.task_attempt import Envelope
from offsite.model.errors import OffsiteError

_DONE: Done[Any] = Done(value=None)


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

    def first_error(self) -> OffsiteError | None:
        if not self._tasks_failed:
            return None
        return next(outcome.error for outcome in self._outcomes if isinstance(outcome, Failed))

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
