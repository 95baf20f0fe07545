"""Runs tasks that are several to a bundle, and tells the outcome of each: what failed beside others, for a reason that
may pass, is tried once more, alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from offsite.spark.runner import Done, Failed, OnProgress, Runner
from offsite.spark.task_attempt import LASTING


class Bundle(Protocol):
    @property
    def numbers(self) -> tuple[int, ...]:
        """The places of its tasks in the plan."""


BundleT = TypeVar("BundleT", bound=Bundle)
ResultT = TypeVar("ResultT")


def run_bundles(
    bundles: Sequence[BundleT],
    function: Callable[[BundleT], tuple[Done[ResultT] | Failed, ...]],
    *,
    alone: Callable[[int], BundleT],
    runner: Runner,
    on_progress: OnProgress | None,
) -> dict[int, Done[ResultT] | Failed]:
    """Number of a task → its outcome. `alone`: the bundle of one task."""
    outcomes = _run(bundles, function, runner, on_progress)
    passing = [n for n, each in outcomes.items() if isinstance(each, Failed) and not isinstance(each.error, LASTING)]
    beside = {number for bundle in bundles if len(bundle.numbers) > 1 for number in bundle.numbers}
    if again := [alone(number) for number in sorted(beside.intersection(passing))]:
        outcomes |= _run(again, function, runner, on_progress)
    return outcomes


def _run(
    bundles: Sequence[BundleT],
    function: Callable[[BundleT], tuple[Done[ResultT] | Failed, ...]],
    runner: Runner,
    on_progress: OnProgress | None,
) -> dict[int, Done[ResultT] | Failed]:
    outcomes: dict[int, Done[ResultT] | Failed] = {}
    for bundle, ended in zip(bundles, runner.run_all(bundles, function, on_progress=on_progress), strict=True):
        each = [ended] * len(bundle.numbers) if isinstance(ended, Failed) else ended.value
        outcomes |= zip(bundle.numbers, each, strict=True)
    return outcomes
