"""The progress of an agent or a job, as shown to others: requests in the log of a job, finished tasks of a runner.

The queue ends a job without progress in its log. A separate thread with the message "alive" would prove
nothing: such a thread continues while the work hangs. Hence the work itself logs, after answered requests to its
stores, at most once a minute. A runner reports finished tasks and moved bytes, not mere running.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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
from offsite.model.clock import Clock
from offsite.stores.wrapped_store import OK

EVERY_S = 60.0


@dataclass(slots=True, kw_only=True)
class ProgressLog:
    """`say` appends a line to the log."""

    clock: Clock
    say: Callable[[str], None]
    _answered: int = 0
    _said_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._said_s = self.clock.monotonic_s()

    def note(self, request: str, outcome: str, took_s: float) -> None:  # noqa: ARG002  # as `OnRequest` is called
        """Count a finished request. A failed request is no progress."""
        if outcome != OK:
            return
        self._answered += 1
        if self.clock.monotonic_s() - self._said_s >= EVERY_S:
            self._said_s = self.clock.monotonic_s()
            self.say(f"works: {self._answered} requests were answered so far")


@dataclass(frozen=True, slots=True)
class ProgressRunner(Runner):
    """Delegates all calls. `on_task_progress` is called whenever tasks ended, or moved bytes, since the last call."""

    inner: Runner
    on_task_progress: Callable[[], None]

    @property
    def slots(self) -> int:
        return self.inner.slots

    def begin(self) -> None:
        self.inner.begin()

    def run_each(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        on_outcome: OnOutcome[ResultT],
        *,
        on_progress: OnProgress | None = None,
        keep_going: bool = True,
    ) -> None:
        heard = self._heard(on_progress)
        self.inner.run_each(tasks, function, on_outcome, on_progress=heard, keep_going=keep_going)

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
