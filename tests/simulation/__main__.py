"""`make sim [WORLD=name] [SEEDS=n] [SEED=n]`: play many seeds, or one with all that happened in it.

The worlds: `processor`, whose checkpoints go with its messages; `source`, to which anything happens, with its backups,
roll-ups, collections and retention.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tests.simulation import course, shrink
from tests.worlds.source_events import course as source_course


class Played(Protocol):
    @property
    def faults(self) -> tuple[str, ...]: ...
    @property
    def counts(self) -> dict[str, int]: ...
    @property
    def trace(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Simulated:
    """A world: how a seed is played, how one that fails is made smaller, and what is counted."""

    play: Callable[[int], Played]
    shrunk: Callable[[int], tuple[object, Played]]
    told: tuple[str, ...]


WORLDS = {
    "processor": Simulated(
        course.play,
        shrink.shrunk,
        (
            "take",
            "acknowledged",
            "complete",
            "forced",
            "leader",
            "crash",
            "store error",
            "late",
            "stall",
            "delete",
            "cleaned",
            "aborted",
            "restored",
        ),
    ),
    "source": Simulated(
        source_course.play,
        source_course.shrunk,
        ("plan", "run", "write", "cut", "elect", "fall", "trim", "delete", "roll", "collect", "retain", "pin"),
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__)
    parser.add_argument("--world", choices=WORLDS, help="only this one (default: all)")
    parser.add_argument("--seed", type=int, help="play this one, and print all that happened")
    parser.add_argument("--seeds", type=int, default=1000, help="how many to play, from 0 on (default 1000)")
    options = parser.parse_args()
    logging.getLogger("offsite").setLevel(logging.ERROR)
    gc.freeze()  # what was imported stays: it need not be gone through again and again
    gc.set_threshold(100_000)
    codes = []
    for name in [options.world] if options.world else WORLDS:
        print(f"world {name}:")
        codes.append(one(name, options.seed) if options.seed is not None else many(name, options.seeds))
    return max(codes)


def one(name: str, seed: int) -> int:
    """Print all that happens in a seed of the world `name`; the exit code is 1 if it is wrong."""
    played = WORLDS[name].play(seed)
    print("\n".join(played.trace))
    return 1 if played.faults else 0


def many(name: str, seeds: int) -> int:
    """Play the seeds of the world `name` up to the first that is wrong, and print that, and how to play it again."""
    world = WORLDS[name]
    began_s, counts, wrong = time.process_time(), Counter[str](), None
    for seed in range(seeds):
        played = world.play(seed)
        counts.update(played.counts)
        if played.faults:
            wrong = seed
            break
    took_s = time.process_time() - began_s
    print(", ".join(f"{counts[each]:,} {each}" for each in world.told))
    if wrong is None:
        print(f"{seeds:,} seeds, nothing wrong; {seeds / took_s * 60:,.0f} a minute of one core")
        return 0
    less, played = world.shrunk(wrong)
    print(*played.trace, sep="\n")
    print(f"seed {wrong} is wrong; the smallest that still is: {less}", *played.faults, sep="\n")
    print(f"to play all of it again: make sim WORLD={name} SEED={wrong}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
