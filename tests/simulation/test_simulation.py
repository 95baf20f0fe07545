"""Random courses of events, none of which may be wrong; and mistakes, each of which has to be found by them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter

import pytest

from tests.simulation.bugs import BUGS, found_within, with_bug
from tests.simulation.course import play
from tests.simulation.shrink import shrunk, smaller

SEEDS = 600
SOAKED = 20_000
A_MINUTE = 1_000


def test_no_course_of_events_is_wrong_and_much_happens_in_them() -> None:
    counts = Counter[str]()
    for seed in range(SEEDS):
        course = play(seed)
        assert not course.faults, f"make sim SEED={seed}"
        counts.update(course.counts)
    for what in ("complete", "restored", "forced", "leader", "crash", "store error", "message lost", "message twice"):
        assert counts[what] > SEEDS, what
    for what in ("delete", "not copied", "cleaned", "aborted"):
        assert counts[what] > 10, what


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_no_course_of_very_many_is_wrong() -> None:
    began_s = time.process_time()
    wrong = next((seed for seed in range(SOAKED) if play(seed).faults), None)
    assert wrong is None, f"make sim SEED={wrong}"
    assert SOAKED / (time.process_time() - began_s) * 60 > A_MINUTE


@pytest.mark.parametrize("bug", BUGS)
def test_a_mistake_is_found(bug: str) -> None:
    assert found_within(bug, 1_000) is not None


def test_a_seed_is_the_same_each_time_in_another_process_too() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--world", "processor", "--seed", "5"]
    outputs = {
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    }
    assert outputs == {"\n".join(("world processor:", *play(5).trace, "")).encode()}


def test_what_fails_is_made_smaller() -> None:
    with with_bug("messages are not stamped"):
        seed = next(each for each in range(100) if play(each).faults and play(each).counts.get("crash"))
        rates, course = shrunk(seed)
        assert course.faults
        assert len(course.trace) < len(play(seed).trace)
        assert not any(found.faults for each in smaller(rates) if (found := play(seed, each)))
