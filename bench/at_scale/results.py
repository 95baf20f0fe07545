"""All that the page says: the worlds as they are simulated with the costs that were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from bench.at_scale.costs import KEPT, UnitCosts, read_costs
from bench.at_scale.following import Day, simulate_day
from bench.at_scale.simulate import Simulated, Stage, simulate, simulate_far_backup, simulated_check
from bench.at_scale.worlds import FOLLOWING, GB, HUNDRED, SPLIT, TB, TEN, WORLDS, World

LARGEST = tuple(GB * size for size in (500, 1_000, 2_000, 5_000, 10_000, 20_000))
"""Sizes of the largest partition in the picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """`split`: one of the backups that the largest world is split into. `far`: the backups of `worlds` and `split`,
    where a commit waits for its look-ups. `by_largest`: `TEN`, with each of `LARGEST`. `check_s`: what the simulation
    gives for the runs that were measured, a backup and a restore."""

    costs: UnitCosts
    worlds: Sequence[Simulated]
    split: Simulated
    far: Sequence[Stage]
    by_largest: Sequence[Simulated]
    day: Day
    check_s: tuple[float, float]

    @property
    def largest_world(self) -> Simulated:
        return self.worlds[-1]


@lru_cache(maxsize=1)
def kept_results(path: Path = KEPT) -> Results:
    return results_of(read_costs(path))


def results_of(costs: UnitCosts, *, worlds: Sequence[World] = WORLDS) -> Results:
    return Results(
        costs=costs,
        worlds=[simulate(world, costs) for world in worlds],
        split=simulate(HUNDRED.split(SPLIT), costs),
        far=[simulate_far_backup(world, costs) for world in (*worlds, HUNDRED.split(SPLIT))],
        by_largest=[simulate(replace(TEN, largest_bytes=size), costs) for size in LARGEST],
        day=simulate_day(FOLLOWING, costs),
        check_s=(
            simulated_check(costs.check_backup, costs.backup, costs.driver),
            simulated_check(costs.check_restore, costs.restore, costs.driver),
        ),
    )


def in_tb(size_bytes: float) -> str:
    return f"{size_bytes / TB:,.3g} TB" if size_bytes >= TB else f"{size_bytes / GB:,.0f} GB"
