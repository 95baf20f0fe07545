"""A runner that passes everything on to another: what tests overrule a part of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from offsite.pipeline.runner import Done, Failed, OnProgress, Runner

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")


class PassingRunner:
    def __init__(self, inner: Runner) -> None:
        self._inner = inner

    def begin(self) -> None:
        self._inner.begin()

    def close(self) -> None:
        self._inner.close()

    def run(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> list[ResultT]:
        return self._inner.run(tasks, function, on_progress=on_progress)

    def run_all(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> list[Done[ResultT] | Failed]:
        return self._inner.run_all(tasks, function, on_progress=on_progress)
