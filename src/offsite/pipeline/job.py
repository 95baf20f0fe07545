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
    from pyspark import Accumulator, SparkContext

TICK_S = 0.2
"""How long the driver waits for an envelope before it shows progress again: five times a second looks alive."""


class Mailbox:
    """Where workers' envelopes arrive. One per SparkContext: an accumulator is never given back by pyspark, so one per
    job would grow for ever. An envelope of an earlier job (cancelled, its tasks still ending) is dropped."""

    def __init__(self, context: SparkContext) -> None:
        self.accumulator: Accumulator[Any] = context.accumulator((), _Gathering(self._deliver))  # type: ignore[arg-type]
        self._job = 0
        self._inbox: queue.SimpleQueue[Envelope[Any] | _End] = queue.SimpleQueue()

    def open(self) -> tuple[int, queue.SimpleQueue[Envelope[Any] | _End]]:
        """A job number never used before, and the queue that its envelopes go to from now on."""
        self._job, self._inbox = self._job + 1, queue.SimpleQueue()
        return self._job, self._inbox

    def _deliver(self, job: int, envelope: Envelope[Any]) -> None:
        if job == self._job:
            self._inbox.put(envelope)


class SparkJob(Generic[TaskT, ResultT]):
    def __init__(
        self,
        context: SparkContext,
        mailbox: Mailbox,
        tasks: Sequence[tuple[int, TaskT]],
        function: Callable[[TaskT], ResultT],
        *,
        max_attempts: int,
    ) -> None:
        job, self._inbox = mailbox.open()
        self._context = context
        self._tasks = tasks
        self._group = f"offsite-{job}"
        self._work = _Work(job=job, function=function, home=mailbox.accumulator, max_attempts=max_attempts)
        self._thread = threading.Thread(target=self._submit, name=self._group, daemon=True)

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
        except Exception as error:  # noqa: BLE001  # handed to the thread that waits in `envelopes`, which raises it
            self._inbox.put(_End(error=error))
        else:
            self._inbox.put(_End(error=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    error: Exception | None


class _Gathering:
    """An accumulator parameter that keeps nothing: on the driver each envelope goes to `deliver`; in a worker they
    are gathered until the task ends. Spark only calls its three methods, so it need not be an AccumulatorParam."""

    def __init__(self, deliver: Callable[[int, Envelope[Any]], None] | None = None) -> None:
        self._deliver = deliver

    def __reduce__(self) -> tuple[type[_Gathering], tuple[()]]:
        return _Gathering, ()

    def zero(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return ()

    def addInPlace(self, kept: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: N802  # Spark's name
        if self._deliver is None:
            return kept + new
        for job, envelope in new:
            self._deliver(job, envelope)
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work(Generic[TaskT, ResultT]):
    """What travels to the workers."""

    job: int
    function: Callable[[TaskT], ResultT]
    home: Any
    max_attempts: int

    def __call__(self, tasks: Iterable[tuple[int, TaskT]]) -> Iterator[None]:
        from pyspark import TaskContext

        context = TaskContext.get()
        is_last_attempt = context is None or context.attemptNumber() + 1 >= self.max_attempts
        for index, task in tasks:
            meter.start()
            envelope = attempt(index, task, self.function, is_last_attempt=is_last_attempt)
            self.home.add(((self.job, envelope),))
        return iter(())
