"""Run tasks in bundles, and return the outcome of every task.

A task that failed beside others, for a passing reason, is tried once more, alone. A bundle may leave tasks untried
because other tasks of the bundle waited in vain for the same leader. Untried tasks run when a repeated task of the
bundle is answered, or a probe: an untried task drawn by lot, so that no order hides a task that would succeed. Else
they stay untried.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from offsite.engine.runner import Done, Failed, OnProgress, Runner, WholeProgress
from offsite.engine.task_attempt import LASTING_ERRORS
from offsite.model.journal import decided, failed
from offsite.model.names import named


class PartitionTask(Protocol):
    @property
    def title(self) -> str:
        """The partition of the task, for messages."""


TaskT = TypeVar("TaskT", bound=PartitionTask)
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle(Generic[TaskT]):
    """Tasks for one worker. `numbers`: their indexes in the plan."""

    numbers: tuple[int, ...]
    tasks: tuple[TaskT, ...]

    @classmethod
    def of(cls, tasks: Sequence[TaskT], numbers: Iterable[int]) -> Bundle[TaskT]:
        """The bundle of those of `tasks` with the given numbers."""
        chosen = tuple(numbers)
        return cls(numbers=chosen, tasks=tuple(tasks[number] for number in chosen))

    @property
    def title(self) -> str:
        return named([task.title for task in self.tasks], most=1, of="partitions")


def deal_out(numbers: Sequence[int], hands: int) -> list[Sequence[int]]:
    """`numbers` dealt out to so many hands, one after another."""
    return [numbers[first::hands] for first in range(hands)]


def run_bundles(
    bundles: Sequence[Bundle[TaskT]],
    function: Callable[[Bundle[TaskT]], tuple[Done[ResultT] | Failed, ...]],
    *,
    tasks: Sequence[TaskT],
    runner: Runner,
    on_progress: OnProgress | None,
) -> dict[int, Done[ResultT] | Failed]:
    """Run bundles of `tasks`. Returns task number → outcome."""
    run = _Run(function, runner, WholeProgress(on_progress))
    outcomes: dict[int, Done[ResultT] | Failed] = {}
    while bundles:  # every round leaves fewer tasks
        # 1. Run all bundles.
        outcomes |= run.all(bundles)
        # 2. Try again alone: tasks that failed beside others, and one probe per bundle among its untried tasks.
        shared = [bundle.numbers for bundle in bundles if len(bundle.numbers) > 1]
        untried = [[number for number in numbers if _is_untried(outcomes[number])] for numbers in shared]
        probes = [random.choice(numbers) for numbers in untried if numbers]  # noqa: S311  # not cryptography
        again = [*(n for numbers in shared for n in sorted(numbers) if _may_pass(outcomes[n])), *probes]
        if again:
            decided("tasks_again", why="they failed together with other tasks, and are tried alone", tasks=len(again))
            outcomes |= run.all([Bundle.of(tasks, [number]) for number in again])
        # 3. Continue with the untried tasks of bundles with an answered task.
        answered = {number for number in again if isinstance(outcomes[number], Done)}
        may_go_on = [left for left, numbers in zip(untried, shared, strict=True) if answered.intersection(numbers)]
        remaining = [[number for number in left if number not in probes] for left in may_go_on]
        bundles = [Bundle.of(tasks, numbers) for numbers in remaining if numbers]
    return outcomes


class _Run(Generic[TaskT, ResultT]):
    def __init__(
        self,
        function: Callable[[Bundle[TaskT]], tuple[Done[ResultT] | Failed, ...]],
        runner: Runner,
        progress: WholeProgress,
    ) -> None:
        self._function, self._runner, self._progress = function, runner, progress

    def all(self, bundles: Sequence[Bundle[TaskT]]) -> dict[int, Done[ResultT] | Failed]:
        outcomes: dict[int, Done[ResultT] | Failed] = {}
        results = self._runner.run_all(bundles, self._function, on_progress=self._progress)
        self._progress.next_run()
        for bundle, result in zip(bundles, results, strict=True):
            if isinstance(result, Failed):  # already reported by the runner
                outcomes |= dict.fromkeys(bundle.numbers, result)
                continue
            for number, outcome in zip(bundle.numbers, result.value, strict=True):
                outcomes[number] = outcome
                if isinstance(outcome, Failed) and outcome.tried:
                    failed(
                        "one_of_a_task",
                        number=number,
                        error=outcome.error.id,
                        why=outcome.error.message,
                        trace=outcome.trace,
                    )
        return outcomes


def _is_untried(outcome: Done[ResultT] | Failed) -> bool:
    return isinstance(outcome, Failed) and not outcome.tried


def _may_pass(outcome: Done[ResultT] | Failed) -> bool:
    return isinstance(outcome, Failed) and outcome.tried and not isinstance(outcome.error, LASTING_ERRORS)
