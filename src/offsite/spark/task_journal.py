"""The journal of one attempt at a task: kept in the worker, sent home with the attempt's envelope, written there.

Bounded by event, so that ten thousand retries cannot push out the one hole; what is left out is counted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from offsite.model import journal
from offsite.model.journal import JOURNAL

LINES_PER_EVENT = 100
"""What a person reads of one kind, and what an envelope carries without being noticed: some 20 KiB."""

_MAX_EVENTS = 20
"""Kinds of events in one attempt: there are fewer in all of offsite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line as it was written at `at_s`, seconds since the epoch by the worker's clock."""

    level: int
    at_s: float
    text: str
    trace: str = ""


class TaskJournal(logging.Handler):
    """The lines that are written to the journal between `recording` and the end of its block."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[Line] = []
        self._seen: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        event = text.partition(" ")[0]
        if event not in self._seen and len(self._seen) >= _MAX_EVENTS:
            event = "others"
        self._seen[event] += 1
        if self._seen[event] <= LINES_PER_EVENT:
            self._kept.append(Line(level=record.levelno, at_s=record.created, text=text, trace=record.exc_text or ""))

    def lines(self) -> tuple[Line, ...]:
        """All that was kept, in order, and a line for each event of which there was more."""
        at_s = self._kept[-1].at_s if self._kept else 0.0
        more = (
            Line(level=logging.INFO, at_s=at_s, text=f"left_out event={event} lines={count - LINES_PER_EVENT}")
            for event, count in self._seen.items()
            if count > LINES_PER_EVENT
        )
        return (*self._kept, *more)


@contextmanager
def recording(level: int) -> Iterator[TaskJournal]:
    """A block whose journal lines of `level` and above are kept in the result, and written nowhere else."""
    kept, level_before, propagated = TaskJournal(), JOURNAL.level, JOURNAL.propagate
    JOURNAL.addHandler(kept)
    JOURNAL.setLevel(level)
    JOURNAL.propagate = False
    try:
        yield kept
    finally:
        JOURNAL.removeHandler(kept)
        JOURNAL.setLevel(level_before)
        JOURNAL.propagate = propagated


def write_lines(lines: Sequence[Line], *, task: int) -> None:
    """Write what a worker sent home, each line with the number of its task."""
    for line in lines:
        event, _, rest = line.text.partition(" ")
        journal.write(line.level, f"{event} task={task} {rest}".rstrip(), at_s=line.at_s, trace=line.trace)
