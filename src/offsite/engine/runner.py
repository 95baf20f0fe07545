"""The port that runs tasks in parallel, and the types between a use and the runner of its tasks: outcome, progress,
name of a job. Knows nothing of Spark.

The progress of several runs in sequence is shown as one (`WholeProgress`). Names of jobs are for people who read
Spark's UI and history server: `backup shop: 3 topics, 120 ranges`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from offsite.model.errors import OffsiteError
from offsite.model.untrusted.text import printable

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")
FoundT = TypeVar("FoundT")
SentT = TypeVar("SentT")
ValueT_co = TypeVar("ValueT_co", covariant=True)

_MAX_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[ValueT_co]):
    """A task that ended well, with the function's result."""

    value: ValueT_co


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A task that failed for good. `error`: for people; `trace`: the worker's traceback, for logs. `tried`: False for a
    task that nobody has tried, because earlier tasks waited in vain for the same leader."""

    error: OffsiteError
    trace: str
    tried: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """The state of a run. `moved_bytes`, `records`: counted by tasks (`meter.count`), running ones included.
    `throttled_s`: seconds of pauses by cluster quotas, summed over all tasks. `limited_s`: the same for offsite's own
    limits. `note`: the reason of a wait at this moment, in words, where known."""

    tasks_total: int
    tasks_done: int
    tasks_failed: int
    moved_bytes: int
    records: int
    elapsed_s: float
    worker_peak_rss_bytes: int
    throttled_s: float = 0.0
    limited_s: float = 0.0
    note: str = ""


OnProgress = Callable[[RunProgress], None]

OnOutcome = Callable[[int, Done[ResultT] | Failed], None]
"""Receives the outcome of a task, by index, as soon as known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledTask(Generic[TaskT, SentT]):
    """A task, and the values that a shuffle brought: to be read once, in any order."""

    task: TaskT
    received: Iterable[SentT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle(Generic[TaskT, FoundT, SentT]):
    """Two steps in front of a task, to bring values found all over a log to the tasks that need them.

    `find` goes through a task and yields (bucket, value) for every value found, with a bucket below `buckets`. `send`
    sees all values of one bucket, and yields (task index, result). Values in transit wait on the disks of the workers,
    not in memory. `give_up` replaces `find` after `find` has failed for good.
    """

    buckets: int
    find: Callable[[TaskT], Iterable[tuple[int, FoundT]]]
    send: Callable[[Iterator[FoundT]], Iterable[tuple[int, SentT]]]
    give_up: Callable[[TaskT, OffsiteError], Iterable[tuple[int, FoundT]]]


class Runner(ABC):
    """A way to run one function over many tasks, in parallel, with retries.

    `function` must be importable by name in another process (a module-level function, or a `functools.partial` of one),
    and tasks and results must be small picklable values without secrets. A task may run more than once, even twice at
    the same time, so functions must write under names of their own. `on_progress` and `on_outcome` are called on the
    caller's thread; an exception in a callback cancels the run, and is raised.
    """

    @property
    @abstractmethod
    def slots(self) -> int:
        """Number of tasks that run at once, as far as known."""

    @abstractmethod
    def begin(self) -> None:
        """Start the background start-up. Returns at once, may be left out, never raises."""

    @abstractmethod
    def await_start(self) -> None:
        """Return when everything needed by tasks has started. Raises the reason of a failed start."""

    @abstractmethod
    def run_each(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        on_outcome: OnOutcome[ResultT],
        *,
        on_progress: OnProgress | None = None,
        keep_going: bool = True,
    ) -> None:
        """Hand over the outcome of every task as soon as known, and keep none: the memory of a run does not grow with
        outcomes. A task that fails for good leaves the rest running, or without `keep_going` cancels the rest."""

    def run(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> list[ResultT]:
        """Return results in the order of `tasks`. The first task that fails for good cancels the rest and is raised."""
        outcomes = self._outcomes(tasks, function, on_progress, keep_going=False)
        if (failure := next((outcome for outcome in outcomes if isinstance(outcome, Failed)), None)) is not None:
            raise failure.error
        return [outcome.value for outcome in outcomes if isinstance(outcome, Done)]

    def run_all(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> list[Done[ResultT] | Failed]:
        """Return outcomes in the order of `tasks`. A task that fails for good leaves the rest running."""
        return self._outcomes(tasks, function, on_progress, keep_going=True)

    def _outcomes(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        on_progress: OnProgress | None,
        *,
        keep_going: bool,
    ) -> list[Done[ResultT] | Failed]:
        outcomes: dict[int, Done[ResultT] | Failed] = {}
        self.run_each(tasks, function, outcomes.__setitem__, on_progress=on_progress, keep_going=keep_going)
        return [outcomes[index] for index in sorted(outcomes)]

    @abstractmethod
    def run_shuffled(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[ShuffledTask[TaskT, SentT]], ResultT],
        shuffle: Shuffle[TaskT, FoundT, SentT],
        *,
        on_progress: OnProgress | None = None,
    ) -> list[Done[ResultT] | Failed]:
        """As `run_all`, with tasks that receive values by `shuffle` over all tasks. The figures count in both steps
        that go through the tasks."""

    @abstractmethod
    def halt(self) -> bool:
        """Stop tasks left running by an interrupted run; takes seconds at most. True when surely no task runs any more;
        False when a task may still run, and write, for minutes."""

    @abstractmethod
    def close(self) -> None:
        """End the processes and delete the folders of the runner. May be called twice."""


class WholeProgress:
    """The progress callback of every run; call `next_run` between two runs. `tasks_total`: tasks of all runs, where
    known; else the tasks of later runs are added when they begin."""

    def __init__(self, on_progress: OnProgress | None, *, tasks_total: int | None = None) -> None:
        self._on_progress = on_progress
        self._tasks_total = tasks_total
        self._before: RunProgress | None = None
        self._now: RunProgress | None = None

    def __call__(self, now: RunProgress) -> None:
        self._now = now if self._before is None else _sum(self._before, now)
        if self._on_progress is not None:
            total = self._now.tasks_total if self._tasks_total is None else self._tasks_total
            self._on_progress(replace(self._now, tasks_total=total))

    def next_run(self) -> None:
        self._before = self._now


def _sum(before: RunProgress, now: RunProgress) -> RunProgress:
    return RunProgress(
        tasks_total=before.tasks_total + now.tasks_total,
        tasks_done=before.tasks_done + now.tasks_done,
        tasks_failed=before.tasks_failed + now.tasks_failed,
        moved_bytes=before.moved_bytes + now.moved_bytes,
        records=before.records + now.records,
        elapsed_s=before.elapsed_s + now.elapsed_s,
        worker_peak_rss_bytes=max(before.worker_peak_rss_bytes, now.worker_peak_rss_bytes),
        throttled_s=before.throttled_s + now.throttled_s,
        limited_s=before.limited_s + now.limited_s,
        note=now.note,
    )


_name: ContextVar[str] = ContextVar("offsite-job-name", default="offsite")


@contextmanager
def job_named(name: str) -> Iterator[None]:
    """Name the jobs of the block, unless an inner block gives a better name. `name` must hold no secret."""
    token = _name.set(printable(name)[:_MAX_CHARACTERS])
    try:
        yield
    finally:
        _name.reset(token)


def job_name() -> str:
    return _name.get()
