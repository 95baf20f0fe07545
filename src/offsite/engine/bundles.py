"""Run tasks in bundles, and return the outcome of every task.

A task that failed beside others, for a passing reason, is tried once more, alone. A bundle may leave tasks untried
because other tasks of the bundle waited in vain for the same leader. Untried tasks run when a repeated task of the
bundle is answered, or a probe: an untried task drawn by lot, so that no order hides a task that would succeed. Else
they stay untried.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from offsite.engine.runner import Done, Failed, OnProgress, Runner, WholeProgress
from offsite.engine.task_attempt import LASTING_ERRORS
from offsite.model.journal import decided, failed


class Bundle(Protocol):
    @property
    def numbers(self) -> tuple[int, ...]:
        """Indexes of the bundle's tasks in the plan."""


BundleT = TypeVar("BundleT", bound=Bundle)
ResultT = TypeVar("ResultT")


def run_bundles(
    bundles: Sequence[BundleT],
    function: Callable[[BundleT], tuple[Done[ResultT] | Failed, ...]],
    *,
    bundle_of: Callable[[Sequence[int]], BundleT],
    runner: Runner,
    on_progress: OnProgress | None,
) -> dict[int, Done[ResultT] | Failed]:
    """Run bundles. Returns task number → outcome. `bundle_of` makes a bundle of tasks, by their numbers."""
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
            outcomes |= run.all([bundle_of([number]) for number in again])
        # 3. Continue with the untried tasks of bundles with an answered task.
        answered = {number for number in again if isinstance(outcomes[number], Done)}
        may_go_on = [tasks for tasks, numbers in zip(untried, shared, strict=True) if answered.intersection(numbers)]
        remaining = [[number for number in tasks if number not in probes] for tasks in may_go_on]
        bundles = [bundle_of(numbers) for numbers in remaining if numbers]
    return outcomes


class _Run(Generic[BundleT, ResultT]):
    def __init__(
        self,
        function: Callable[[BundleT], tuple[Done[ResultT] | Failed, ...]],
        runner: Runner,
        progress: WholeProgress,
    ) -> None:
        self._function, self._runner, self._progress = function, runner, progress

    def all(self, bundles: Sequence[BundleT]) -> dict[int, Done[ResultT] | Failed]:
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
