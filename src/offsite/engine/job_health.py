"""What is told while a job runs: a cluster without executors, and tasks that run much longer than the rest.

Without executors Spark itself would wait for ever, and tell only a log that nobody reads: the state is shown while it
lasts, and is an error when it lasts too long. Long tasks are named while running, with their machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from offsite.engine.meter import ProgressDatagram
from offsite.model.clock import Clock, Wait
from offsite.model.errors import SparkFailed
from offsite.model.journal import warned
from offsite.model.units import format_duration

TELL_AFTER_S = 10.0
"""Replaced executors, or executors that a cluster has yet to start, are not worth a message before."""


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


LONG_S = 30.0
"""Below this time a task may take as long as it likes."""
TIMES_LONGER = 4.0
KNOWN_MIN = 3
"""Tasks that must have ended before a running task can be unusual."""
_REMEMBERED = 1000


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
