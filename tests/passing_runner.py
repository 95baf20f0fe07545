"""A runner that passes everything on to another: what tests overrule a part of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from offsite.engine.runner import Done, Failed, OnOutcome, OnProgress, Runner, RunProgress

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")


def interrupt_after(marker: Path) -> OnProgress:
    """Ctrl-C as soon as there is anything in `marker`."""

    def show(_: RunProgress) -> None:
        if marker.exists() and marker.stat().st_size:
            raise KeyboardInterrupt

    return show


class PassingRunner:
    def __init__(self, inner: Runner) -> None:
        self._inner = inner

    @property
    def slots(self) -> int:
        return self._inner.slots

    def begin(self) -> None:
        self._inner.begin()

    def await_start(self) -> None:
        self._inner.await_start()

    def halt(self) -> bool:
        return self._inner.halt()

    def close(self) -> None:
        self._inner.close()

    def run(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> list[ResultT]:
        return self._inner.run(tasks, function, on_progress=on_progress)

    def run_all(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        *,
        on_progress: OnProgress | None = None,
    ) -> list[Done[ResultT] | Failed]:
        return self._inner.run_all(tasks, function, on_progress=on_progress)

    def run_each(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        on_outcome: OnOutcome[ResultT],
        *,
        on_progress: OnProgress | None = None,
        keep_going: bool = True,
    ) -> None:
        self._inner.run_each(tasks, function, on_outcome, on_progress=on_progress, keep_going=keep_going)
