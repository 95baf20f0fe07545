"""`make sim [SEEDS=n] [SEED=n]`: play many seeds, or one with all that happened in it."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.simulation.course import play
from tests.simulation.shrink import shrunk

_TOLD = (
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
    "restored",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one, and print all that happened")
    parser.add_argument("--seeds", type=int, default=1000, help="how many to play, from 0 on (default 1000)")
    options = parser.parse_args()
    return _one(options.seed) if options.seed is not None else _many(options.seeds)


def _one(seed: int) -> int:
    course = play(seed)
    print("\n".join(course.trace))
    return 1 if course.faults else 0


def _many(seeds: int) -> int:
    began_s, counts, wrong = time.perf_counter(), Counter[str](), None
    for seed in range(seeds):
        course = play(seed)
        counts.update(course.counts)
        if course.faults:
            wrong = seed
            break
    took_s = time.perf_counter() - began_s
    print(", ".join(f"{counts[each]:,} {each}" for each in _TOLD))
    if wrong is None:
        print(f"{seeds:,} seeds, nothing wrong; {seeds / took_s * 60:,.0f} a minute")
        return 0
    rates, course = shrunk(wrong)
    print(*course.trace, sep="\n")
    print(f"seed {wrong} is wrong; the smallest that still is: {rates}", *course.faults, sep="\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
