"""A failing seed made as small as it goes: fewer kinds of faults, and a shorter time, as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Protocol, TypeVar

from tests.simulation.course import Course, play
from tests.simulation.store import Faults
from tests.simulation.world import Rates
from tests.virtual_time import Scheduler

_NEEDED = {"commands", "checkpoints", "faults", "seconds"}


GivenT = TypeVar("GivenT")


class Judged(Protocol):
    @property
    def faults(self) -> tuple[str, ...]: ...


JudgedT = TypeVar("JudgedT", bound=Judged)


def shrunk(seed: int) -> tuple[Rates, Course]:
    """The smallest rates that were found with which `seed` still fails, and that course."""
    return smallest(Rates.drawn(Scheduler(seed)), smaller, lambda rates: play(seed, rates))


def smallest(
    given: GivenT, less_of: Callable[[GivenT], Iterator[GivenT]], played: Callable[[GivenT], JudgedT]
) -> tuple[GivenT, JudgedT]:
    """What is left of `given` when nothing that `less_of` tells fails any more, and the course of it."""
    found = played(given)
    while less := next(((each, course) for each in less_of(given) if (course := played(each)).faults), None):
        given, found = less
    return given, found


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
