"""The journal of one attempt at a task: kept in the worker, sent home with the attempt's envelope, written there.

Bounded per event, so that ten thousand retries cannot push out the one hole; lines left out are counted.
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
"""Lines that a person reads of one kind, and that an envelope carries unnoticed: some 20 KiB."""

_MAX_EVENTS = 20
"""Kinds of events in one attempt: all of offsite has fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    """One line, written at `at_s`, seconds since the epoch by the worker's clock."""

    level: int
    at_s: float
    text: str
    trace: str = ""


class TaskJournal(logging.Handler):
    """The lines written to the journal between `recording` and the end of its block."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[JournalLine] = []
        self._seen: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        event = text.partition(" ")[0]
        if event not in self._seen and len(self._seen) >= _MAX_EVENTS:
            event = "others"
        self._seen[event] += 1
        if self._seen[event] <= LINES_PER_EVENT:
            self._kept.append(
                JournalLine(level=record.levelno, at_s=record.created, text=text, trace=record.exc_text or "")
            )

    def lines(self) -> tuple[JournalLine, ...]:
        """Return all kept lines, in order, and a line per event with more lines."""
        at_s = self._kept[-1].at_s if self._kept else 0.0
        more = (
            JournalLine(level=logging.INFO, at_s=at_s, text=f"left_out event={event} lines={count - LINES_PER_EVENT}")
            for event, count in self._seen.items()
            if count > LINES_PER_EVENT
        )
        return (*self._kept, *more)


@contextmanager
def recording(level: int) -> Iterator[TaskJournal]:
    """A block whose journal lines of `level` and above are kept in the result, and written nowhere else."""
    task_journal, level_before, propagated = TaskJournal(), JOURNAL.level, JOURNAL.propagate
    JOURNAL.addHandler(task_journal)
    JOURNAL.setLevel(level)
    JOURNAL.propagate = False
    try:
        yield task_journal
    finally:
        JOURNAL.removeHandler(task_journal)
        JOURNAL.setLevel(level_before)
        JOURNAL.propagate = propagated


def write_lines(lines: Sequence[JournalLine], *, task: int) -> None:
    """Write the lines sent home by a worker, with the number of the task."""
    for line in lines:
        event, _, fields = line.text.partition(" ")
        journal.write(line.level, f"{event} task={task} {fields}".rstrip(), at_s=line.at_s, trace=line.trace)
