"""A failing seed made as small as it goes: fewer kinds of faults, and a shorter time, as long as it still fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from tests.simulation.course import Course, play
from tests.simulation.scheduler import Scheduler
from tests.simulation.store import Faults
from tests.simulation.world import Rates

_NEEDED = {"commands", "checkpoints", "faults", "seconds"}


def shrunk(seed: int) -> tuple[Rates, Course]:
    """The smallest rates that were found with which `seed` still fails, and that course."""
    rates = Rates.drawn(Scheduler(seed))
    found = play(seed, rates)
    while less := next(((each, course) for each in smaller(rates) if (course := play(seed, each)).faults), None):
        rates, found = less
    return rates, found


def smaller(rates: Rates) -> Iterator[Rates]:
    """Each of them is without one thing that `rates` has."""
    if rates.seconds > 1:
        yield replace(rates, seconds=rates.seconds / 2)
    for each in fields(rates):
        if each.name not in _NEEDED and getattr(rates, each.name):
            yield replace(rates, **{each.name: 0.0})
    for fault in fields(Faults):
        if getattr(rates.faults, fault.name):
            yield replace(rates, faults=replace(rates.faults, **{fault.name: 0.0}))
    if rates.commands > 1:
        yield replace(rates, commands=rates.commands / 2)
