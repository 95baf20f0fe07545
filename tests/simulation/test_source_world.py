"""Seeds of source events under `make sim`, and mistakes that they have to find."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.__main__ import many
from tests.worlds.source_events.bugs import BUGS, found_within, with_bug
from tests.worlds.source_events.course import play, shrunk

SEEDS = 60
SOAKED = 10_000
WERE_WRONG = (4340, 5814, 7224)
"""Seeds that were wrong once: a commit whose age nobody asked for again, a log that was not the planned one where
nothing was left to compare, and a pin that no command made."""


def test_no_seed_is_wrong_and_much_happens_in_them() -> None:
    counts = Counter[str]()
    for seed in range(SEEDS):
        course = play(seed)
        assert not course.faults, f"make sim WORLD=source SEED={seed}"
        counts.update(course.counts)
    for what in ("run", "cut", "roll", "collect", "retain"):
        assert counts[what] > SEEDS / 4, what


@pytest.mark.parametrize("seed", WERE_WRONG)
def test_no_seed_is_wrong_again(seed: int) -> None:
    assert not play(seed).faults, f"make sim WORLD=source SEED={seed}"


def test_a_play_leaves_nothing_in_the_memory_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another one would judge by it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert play(7).counts["kept"]
    assert not [*tmp_path.iterdir()]


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_seed_of_very_many_is_wrong() -> None:
    wrong = next((seed for seed in range(SOAKED) if play(seed).faults), None)
    assert wrong is None, f"make sim WORLD=source SEED={wrong}"


@pytest.mark.parametrize("bug", BUGS)
def test_a_mistake_is_found(bug: str) -> None:
    assert found_within(bug, 20) is not None


def test_a_seed_is_the_same_in_another_process() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--world", "source", "--seed", "5"]
    outputs = {
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    }
    assert outputs == {"\n".join(("world source:", *play(5).trace, "")).encode()}


def test_what_fails_is_made_smaller() -> None:
    with with_bug("a position moves on an empty answer"):
        seed = next(each for each in range(20) if play(each).faults)
        left_out, course = shrunk(seed)
        assert course.faults
        assert left_out
        assert len(course.trace) < len(play(seed).trace)
        assert play(seed, left_out).trace == course.trace


def test_what_fails_tells_the_command_that_plays_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    with with_bug("a position moves on an empty answer"):
        assert many("source", 20) == 1
        seed = next(each for each in range(20) if play(each).faults)
    assert capsys.readouterr().out.splitlines()[-1].endswith(f": make sim WORLD=source SEED={seed}")
