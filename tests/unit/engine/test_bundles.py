from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from offsite.engine import bundles as module
from offsite.engine.bundles import Bundle, run_bundles
from offsite.engine.runner import Done, Failed, RunProgress
from offsite.model.errors import DamagedBatch, LeaderUnavailable
from tests.inline_runner import InlineRunner

AWAY = LeaderUnavailable("away")


def bundle(*numbers: int) -> Bundle[Any]:
    return Bundle.of(range(8), numbers)


@pytest.fixture(autouse=True)
def last_one_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.random, "choice", lambda numbers: numbers[-1])


class World:
    """Tasks of which some fail, of bundles in which the broker is asked for two at most. `back_after`: so many runs."""

    def __init__(
        self, *, away: Sequence[int], back_after: int, lasting: Sequence[int] = (), hides_others: bool = False
    ) -> None:
        self._away, self._back_after, self._lasting = set(away), back_after, set(lasting)
        self._hides_others = hides_others
        self.runs: list[list[tuple[int, ...]]] = []

    def run(self, bundles: Sequence[Bundle[Any]]) -> dict[int, Done[int] | Failed]:
        return run_bundles(
            bundles,
            self._work,
            tasks=range(8),
            runner=_Runner(self.runs),
            on_progress=None,
        )

    def _work(self, bundle: Bundle[Any]) -> tuple[Done[int] | Failed, ...]:
        found: list[Done[int] | Failed] = []
        for number in bundle.numbers:
            waits = sum(isinstance(each, Failed) and each.tried for each in found)
            if number in self._lasting:
                found.append(Failed(error=DamagedBatch("damaged"), trace="Trace\nDamagedBatch: damaged"))
            elif self._hides_others and waits == 2:
                found.append(Failed(error=AWAY, trace="", tried=False))
            elif number not in self._away or len(self.runs) > self._back_after:
                found.append(Done(value=number))
            else:
                found.append(Failed(error=AWAY, trace="", tried=waits < 2))
        return tuple(found)


class _Runner(InlineRunner):
    def __init__(self, runs: list[list[tuple[int, ...]]]) -> None:
        self._runs = runs

    def run_all(self, tasks: Sequence[Any], function: Callable[[Any], Any], **given: Any) -> list[Any]:
        self._runs.append([each.numbers for each in tasks])
        return super().run_all(tasks, function, **given)


def test_what_was_not_tried_is_tried_when_one_that_waited_was_answered() -> None:
    world = World(away=range(2, 8), back_after=1)
    outcomes = world.run([bundle(*range(8))])
    assert world.runs == [[tuple(range(8))], [(2,), (3,), (7,)], [(4, 5, 6)]]
    assert all(isinstance(outcomes[number], Done) for number in range(8))


def test_nobody_waits_for_each_partition_of_a_broker_that_stays_away() -> None:
    world = World(away=range(8), back_after=99)
    outcomes = world.run([bundle(*range(8))])
    assert world.runs == [[tuple(range(8))], [(0,), (1,), (7,)]]
    assert all(isinstance(each, Failed) for each in outcomes.values())


def test_one_of_the_untried_that_is_answered_brings_the_others() -> None:
    """The two that waited are sick, and nothing else."""
    world = World(away=[0, 1], back_after=99, hides_others=True)
    outcomes = world.run([bundle(*range(8))])
    assert world.runs == [[tuple(range(8))], [(0,), (1,), (7,)], [(2, 3, 4, 5, 6)]]
    assert [isinstance(outcomes[number], Done) for number in range(8)] == [False, False, *[True] * 6]


def test_what_is_damaged_stays_so_and_its_trace_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(module, "failed", lambda _, *, trace, **fields: told.append(f"{fields['number']} {trace}"))
    world = World(away=(), back_after=0, lasting=[1])
    outcomes = world.run([bundle(0, 1), bundle(2)])
    assert world.runs == [[(0, 1), (2,)]]
    assert isinstance(outcomes[1], Failed)
    assert told == ["1 Trace\nDamagedBatch: damaged"]


def test_the_progress_of_a_second_run_goes_on_behind_the_first() -> None:
    seen: list[RunProgress] = []

    class Telling(_Runner):
        def run_all(self, tasks: Sequence[Any], function: Callable[[Any], Any], **given: Any) -> list[Any]:
            given["on_progress"](
                RunProgress(
                    tasks_total=len(tasks),
                    tasks_done=len(tasks),
                    tasks_failed=0,
                    moved_bytes=10,
                    records=1,
                    elapsed_s=5.0,
                    worker_peak_rss_bytes=1,
                )
            )
            return super().run_all(tasks, function, **given)

    world = World(away=[0], back_after=1)
    run_bundles(
        [bundle(0, 1)],
        world._work,
        tasks=range(8),
        runner=Telling(world.runs),
        on_progress=seen.append,
    )
    assert [(each.tasks_done, each.tasks_total, each.moved_bytes, each.elapsed_s) for each in seen] == [
        (1, 1, 10, 5.0),
        (2, 2, 20, 10.0),
    ]
