"""One seed of a source to which anything happens, its backups, roll-ups, collections and retention; the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from offsite.model.errors import OffsiteError
from tests.simulation.shrink import smallest
from tests.worlds.source_events.play import Play, same_ids
from tests.worlds.source_events.retaining import RetentionPlay

RETENTION_EVERY = 7
"""One seed of so many has retention, which takes about four times as long."""
_STEPS_MAX = 40


@dataclass(frozen=True, slots=True)
class SourceCourse:
    """What one seed came to; `trace` is the same in each process."""

    seed: int
    faults: tuple[str, ...]
    counts: dict[str, int]
    trace: tuple[str, ...]


def play(seed: int, left_out: frozenset[int] = frozenset()) -> SourceCourse:
    """Play `seed` without the steps `left_out`."""
    with same_ids():
        kind = Play if seed % RETENTION_EVERY else RetentionPlay
        played = kind(number=seed, left_out=left_out)
        faults = tuple(_faults(played))
    counts = Counter(each.split(" ", 1)[0].rstrip(":") for each in played.told)
    return SourceCourse(seed, faults, dict(counts), (*played.told, *(f"FAULT {each}" for each in faults)))


def _faults(played: Play) -> Iterator[str]:
    """What the judge says, or the code under test itself."""
    try:
        played.play()
    except (AssertionError, OffsiteError, LookupError, ValueError) as error:
        yield f"{type(error).__name__}: {error}"


def shrunk(seed: int) -> tuple[frozenset[int], SourceCourse]:
    """The steps without which `seed` still fails, none of the others being needless, and that course."""
    return smallest(frozenset[int](), _smaller, lambda left_out: play(seed, left_out))


def _smaller(left_out: frozenset[int]) -> Iterator[frozenset[int]]:
    """Half of the last steps that are left, a quarter and so on, and then each alone."""
    left = [step for step in range(_STEPS_MAX) if step not in left_out]
    size = len(left) // 2
    while size > 1:
        yield left_out | frozenset(left[-size:])
        size //= 2
    yield from (left_out | {step} for step in left)
