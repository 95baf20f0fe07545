"""A runner that reports progress: finished tasks and moved bytes, not mere running."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from offsite.engine.runner import (
    Done,
    Failed,
    FoundT,
    OnOutcome,
    OnProgress,
    ResultT,
    Runner,
    RunProgress,
    SentT,
    Shuffle,
    ShuffledTask,
    TaskT,
)


@dataclass(frozen=True, slots=True)
class ProgressRunner:
    """Delegates all calls. `on_task_progress` is called whenever tasks ended, or moved bytes, since the last call."""

    inner: Runner
    on_task_progress: Callable[[], None]

    @property
    def slots(self) -> int:
        return self.inner.slots

    def begin(self) -> None:
        self.inner.begin()

    def run(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> list[ResultT]:
        return self.inner.run(tasks, function, on_progress=self._heard(on_progress))

    def run_all(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        *,
        on_progress: OnProgress | None = None,
    ) -> list[Done[ResultT] | Failed]:
        return self.inner.run_all(tasks, function, on_progress=self._heard(on_progress))

    def run_each(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        on_outcome: OnOutcome[ResultT],
        *,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.inner.run_each(tasks, function, on_outcome, on_progress=self._heard(on_progress))

    def run_shuffled(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[ShuffledTask[TaskT, SentT]], ResultT],
        shuffle: Shuffle[TaskT, FoundT, SentT],
        *,
        on_progress: OnProgress | None = None,
    ) -> list[Done[ResultT] | Failed]:
        return self.inner.run_shuffled(tasks, function, shuffle, on_progress=self._heard(on_progress))

    def await_start(self) -> None:
        self.inner.await_start()

    def halt(self) -> bool:
        return self.inner.halt()

    def close(self) -> None:
        self.inner.close()

    def _heard(self, on_progress: OnProgress | None) -> OnProgress:
        moved = (0, 0, 0)

        def hear(now: RunProgress) -> None:
            nonlocal moved
            before, moved = moved, (now.tasks_done, now.moved_bytes, now.records)
            if any(after > less for after, less in zip(moved, before, strict=True)):
                self.on_task_progress()
            if on_progress is not None:
                on_progress(now)

        return hear
