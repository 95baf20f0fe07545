"""Progress of a run on stderr: a bar on a terminal, a line every 30 s elsewhere, nothing for a short run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING

from offsite.cli.live import calm_console
from offsite.engine.runner import OnProgress, RunProgress
from offsite.model.names import amount
from offsite.model.units import format_duration, format_size
from offsite.model.untrusted.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from offsite.restore.topic_progress import OnTopics

LINE_EVERY_S = 30.0
"""Seconds between two lines in a log file about a long run."""


OnLabelled = Callable[[str, RunProgress], None]
_listener: ContextVar[OnLabelled | None] = ContextVar("hearer", default=None)
_topics_listener: ContextVar[OnTopics | None] = ContextVar("topics_listener", default=None)


@contextmanager
def report_progress_to(listener: OnLabelled, *, on_topics: OnTopics | None = None) -> Iterator[None]:
    """A context in which `listener` receives the progress of every run, with the label, instead of people; `on_topics`
    that of the topics of a restore."""
    before, topics_before = _listener.set(listener), _topics_listener.set(on_topics)
    try:
        yield
    finally:
        _listener.reset(before)
        _topics_listener.reset(topics_before)


def topics_listener() -> OnTopics | None:
    """Who receives the progress of the topics of a restore; None: nobody."""
    return _topics_listener.get()


@contextmanager
def progress(label: str, *, total_bytes: int) -> Iterator[OnProgress]:
    """Yield a callback for `Runner.run`. `total_bytes` is an estimate: if wrong, the bar follows tasks."""
    label = printable(label)
    if (listener := _listener.get()) is not None:
        yield partial(listener, label)
    elif sys.stderr.isatty():
        with _bar() as bar:
            yield _BarUpdate(bar, bar.add_task(label, total=max(1, total_bytes), records=""))
    else:
        yield _Lines(label)


@contextmanager
def progress_of_two(first: str, second: str, *, total_bytes: int) -> Iterator[tuple[OnProgress, OnProgress]]:
    """Yield callbacks for two successive runs over the same bytes."""
    if (listener := _listener.get()) is not None:
        yield partial(listener, printable(first)), partial(listener, printable(second))
    elif sys.stderr.isatty():
        with _bar() as bar:
            tasks = [
                bar.add_task(printable(label), total=max(1, total_bytes), records="", start=False, visible=False)
                for label in (first, second)
            ]
            yield _BarUpdate(bar, tasks[0]), _BarUpdate(bar, tasks[1])
    else:
        yield _Lines(printable(first)), _Lines(printable(second))


def _bar() -> Progress:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TextColumn("{task.fields[records]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=calm_console(),
        transient=True,
    )


class _BarUpdate:
    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task

    def __call__(self, now: RunProgress) -> None:
        task = self._bar.tasks[self._task]
        if not task.started:
            self._bar.start_task(self._task)
        total = task.total or 1
        finished = now.tasks_done + now.tasks_failed == now.tasks_total
        completed = now.moved_bytes if not finished else max(now.moved_bytes, total)
        self._bar.update(
            self._task,
            completed=completed,
            total=max(total, completed),
            records=f"{amount(now.records, 'record')}{_held_back(now)}",
            visible=True,
        )


class _Lines:
    def __init__(self, label: str) -> None:
        self._label = label
        self._next_s = LINE_EVERY_S
        self._last_s = 0.0

    def __call__(self, now: RunProgress) -> None:
        if now.elapsed_s < self._last_s:  # another run, with a clock of its own
            self._next_s = LINE_EVERY_S
        self._last_s = now.elapsed_s
        if now.elapsed_s < self._next_s:
            return
        self._next_s = now.elapsed_s + LINE_EVERY_S
        rate = format_size(now.moved_bytes / max(now.elapsed_s, 1e-3))
        print(  # noqa: T201
            f"{self._label}: {format_size(now.moved_bytes)}, {amount(now.records, 'record')}, {rate}/s, "
            f"{now.tasks_done}/{amount(now.tasks_total, 'task')}, {format_duration(now.elapsed_s)}{_held_back(now)}",
            file=sys.stderr,
            flush=True,
        )


def _held_back(now: RunProgress) -> str:
    quota = f", throttled by the cluster's quota for {format_duration(now.throttled_s)}" if now.throttled_s else ""
    limit = f", throttled by the limits of the command for {format_duration(now.limited_s)}" if now.limited_s else ""
    return quota + limit + (f", {printable(now.note)}" if now.note else "")
