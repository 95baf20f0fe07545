"""One Spark job over numbered tasks: submitted from a thread of its own, its envelopes handed out as they arrive.

Envelopes travel in a Spark accumulator: it reaches the driver when a task ends, exactly then, and counts no failed
attempt. One Spark task per task value. Must never build a SparkContext.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from offsite.pipeline import meter
from offsite.pipeline.attempt import Envelope, attempt
from offsite.pipeline.runner import ResultT, TaskT

if TYPE_CHECKING:
    from pyspark import SparkContext

TICK_S = 0.2
"""How long the driver waits for an envelope before it shows progress again: five times a second looks alive."""


class SparkJob(Generic[TaskT, ResultT]):
    def __init__(
        self,
        context: SparkContext,
        tasks: Sequence[tuple[int, TaskT]],
        function: Callable[[TaskT], ResultT],
        *,
        group: str,
        max_attempts: int,
    ) -> None:
        self._context = context
        self._tasks = tasks
        self._group = group
        self._inbox: queue.SimpleQueue[Envelope[ResultT] | _End] = queue.SimpleQueue()
        post = context.accumulator((), _Mailbox(self._inbox.put))  # type: ignore[arg-type]  # duck typed on purpose
        self._work = _Work(function=function, post=post, max_attempts=max_attempts)
        self._thread = threading.Thread(target=self._submit, name=group, daemon=True)

    def envelopes(self) -> Iterator[Envelope[ResultT] | None]:
        """Start the job; yield each envelope, and None at least every `TICK_S`. Raises what Spark raised at the end."""
        self._thread.start()
        while True:
            try:
                arrived = self._inbox.get(timeout=TICK_S)
            except queue.Empty:
                yield None
                continue
            if isinstance(arrived, Envelope):
                yield arrived
            elif arrived.error is not None:
                raise arrived.error
            else:
                return

    def cancel(self) -> None:
        """Stop the job's tasks. Returns without waiting for them."""
        self._context.cancelJobGroup(self._group)

    def _submit(self) -> None:
        try:
            self._context.setJobGroup(self._group, "offsite", interruptOnCancel=True)
            self._context.parallelize(self._tasks, len(self._tasks)).mapPartitions(self._work).collect()
        except Exception as error:
            self._inbox.put(_End(error=error))
        else:
            self._inbox.put(_End(error=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    error: Exception | None


class _Mailbox:
    """An accumulator parameter that keeps nothing: on the driver each envelope goes to `deliver`; in a worker they
    are gathered until the task ends."""

    def __init__(self, deliver: Callable[[Any], None] | None = None) -> None:
        self._deliver = deliver

    def __reduce__(self) -> tuple[type[_Mailbox], tuple[()]]:
        return _Mailbox, ()

    def zero(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return ()

    def addInPlace(self, kept: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: N802 (Spark's name)
        if self._deliver is None:
            return kept + new
        for envelope in new:
            self._deliver(envelope)
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work(Generic[TaskT, ResultT]):
    """What travels to the workers."""

    function: Callable[[TaskT], ResultT]
    post: Any
    max_attempts: int

    def __call__(self, tasks: Iterable[tuple[int, TaskT]]) -> Iterator[None]:
        from pyspark import TaskContext

        context = TaskContext.get()
        is_last_attempt = context is None or context.attemptNumber() + 1 >= self.max_attempts
        for index, task in tasks:
            meter.start()
            self.post.add((attempt(index, task, self.function, is_last_attempt=is_last_attempt),))
        return iter(())
