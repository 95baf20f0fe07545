"""Tasks that run much longer than the rest: named while running, with their machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from offsite.engine.progress_datagram import ProgressDatagram
from offsite.model.journal import warned
from offsite.model.time import format_duration

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
