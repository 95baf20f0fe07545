"""One seed from its beginning to the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.simulation.engine import State
from tests.simulation.judge import state_faults, status_faults
from tests.simulation.restored import NotRestorable, restored
from tests.simulation.world import Rates, World
from tests.virtual_time import Scheduler

RESTORES = 3


@dataclass(frozen=True, slots=True)
class Course:
    seed: int
    faults: tuple[str, ...]
    counts: dict[str, int]
    trace: tuple[str, ...]


def play(seed: int, rates: Rates | None = None) -> Course:
    """What one seed comes to: what was wrong, how often what happened, and the trace of it all. `rates`: others than
    the seed's own."""
    scheduler = Scheduler(seed)
    drawn = Rates.drawn(scheduler)
    world = World(scheduler, rates or drawn)
    world.live()
    faults = tuple(_faults(world, seed))
    for each in faults:
        scheduler.trace.append(f"FAULT {each}")
    return Course(seed, faults, dict(scheduler.counts), tuple(scheduler.trace))


def _faults(world: World, seed: int) -> Iterator[str]:
    yield from (f"running: {each}" for each in state_faults(_states(world)))
    yield from status_faults({each: list(map(str, seen)) for each, seen in world.statuses.items()})
    for each in world.takings:
        if each.acknowledged and each.checkpoint not in world.statuses:
            yield f"checkpoint {each.checkpoint} was acknowledged, and nothing is known of it"
    complete = sorted(each for each, seen in world.statuses.items() if str(seen[-1]) == "completed")
    world.scheduler.counts["complete"] = len(complete)
    for checkpoint in complete[-RESTORES:]:
        yield from (f"restored {checkpoint}: {each}" for each in _restore_faults(world, checkpoint, seed))


def _restore_faults(world: World, checkpoint: int, seed: int) -> Iterator[str]:
    try:
        again = restored(world.store, checkpoint, seed=seed, incarnation=checkpoint)
    except NotRestorable as problem:
        yield str(problem)
        return
    again.start()
    again.settle()
    world.scheduler.counts["restored"] = world.scheduler.counts.get("restored", 0) + 1
    yield from state_faults(_states(again))
    if again.store.manifests != world.store.manifests:
        new = again.store.manifests.keys() - world.store.manifests.keys()
        yield f"the restored processor changed copies: {sorted(new)}"


def _states(world: World) -> list[State]:
    return [each.leader.state for each in world.partitions if each.leader is not None]
