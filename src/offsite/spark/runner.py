"""The port that runs tasks in parallel, and what comes back from them.

Owns the types between a service and whatever runs its tasks: outcome, progress. Knows nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from offsite.model.errors import OffsiteError

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")
FoundT = TypeVar("FoundT")
SentT = TypeVar("SentT")
ValueT_co = TypeVar("ValueT_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[ValueT_co]):
    """A task that ended well, and what its function returned."""

    value: ValueT_co


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A task that failed for good. `trace` is the worker's traceback, for logs; `error` is what a person should see.
    `tried`: False for what nobody has tried, because others had waited in vain for the same."""

    error: OffsiteError
    trace: str
    tried: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """The state of a run. `moved_bytes` and `records` are what tasks counted (`meter.count`), running ones included.
    `throttled_s`: seconds for which the cluster's quotas held tasks back, added up over all tasks; `limited_s`: those
    for which limits of our own did. `note`: what the run waits for just now, in words, where that is known."""

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
"""Told of the outcome of a task, by its index, as soon as it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed(Generic[TaskT, SentT]):
    """A task, and what a shuffle brought it: to be read once, in any order."""

    task: TaskT
    sent: Iterable[SentT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle(Generic[TaskT, FoundT, SentT]):
    """Two steps in front of a task, by which what is found all over a log comes together where it is needed.

    `find` goes through a task and says to which of `buckets` each thing goes that it found; `send` sees all that came
    to one bucket, and says to which task, by its index, each of its results goes. What is on its way waits on the disks
    of the workers, not in memory. `give_up`: what `find` sends instead once it has failed for good.
    """

    buckets: int
    find: Callable[[TaskT], Iterable[tuple[int, FoundT]]]
    send: Callable[[Iterator[FoundT]], Iterable[tuple[int, SentT]]]
    give_up: Callable[[TaskT, OffsiteError], Iterable[tuple[int, FoundT]]]


class Runner(Protocol):
    """A way to run one function over many tasks, in parallel, with retries.

    `function` must be importable by name in another process (a module-level function, or a `functools.partial` of one),
    and tasks and results must be small picklable values without secrets. A task may run more than once, even twice at
    the same time: functions must write under names of their own. `on_progress` and `on_outcome` are called on
    the caller's thread; what they raise cancels the run, and is raised.
    """

    @property
    def slots(self) -> int:
        """Tasks that run at once, as far as it is known."""

    def begin(self) -> None:
        """Start what has to be started, in the background. Returns at once, may be left out, never raises."""

    def await_start(self) -> None:
        """Return when all has started that tasks need. Raises why it does not."""

    def run(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        *,
        on_progress: OnProgress | None = None,
    ) -> list[ResultT]:
        """Results in the order of `tasks`. The first task that fails for good cancels the others and is raised."""

    def run_all(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        *,
        on_progress: OnProgress | None = None,
    ) -> list[Done[ResultT] | Failed]:
        """Outcomes in the order of `tasks`. A task that fails for good leaves the others running."""

    def run_each(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        on_outcome: OnOutcome[ResultT],
        *,
        on_progress: OnProgress | None = None,
    ) -> None:
        """As `run_all`, but each outcome is handed over and not kept: the memory of a run does not grow with them."""

    def run_shuffled(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[Fed[TaskT, SentT]], ResultT],
        shuffle: Shuffle[TaskT, FoundT, SentT],
        *,
        on_progress: OnProgress | None = None,
    ) -> list[Done[ResultT] | Failed]:
        """Outcomes in the order of `tasks`, as `run_all`, of tasks that are each fed by `shuffle` of all of them. What
        tasks count is counted in both steps that go through them."""

    def halt(self) -> bool:
        """Stop the tasks that an interrupted run left running; takes seconds at most. True when it is known for sure
        that no task runs any more; False when one may still run, and write, for minutes."""

    def close(self) -> None:
        """End the processes and delete the folders of this runner. May be called twice."""
