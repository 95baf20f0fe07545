"""Clocks of a real machine, in a time namespace where it was switched on a day before it did anything: as after a
sleep."""

from __future__ import annotations

import subprocess
import sys

import pytest

from offsite.model.clock import Stopwatch
from tests.virtual_time import VirtualClock

SLEPT_S = 86_400
AWAKE = "from offsite.model.clock import SleeplessClock, SystemClock\nprint({}().monotonic_s())"


def test_only_the_sleepless_clock_goes_on_while_the_machine_sleeps() -> None:
    assert read_after_sleep("SleeplessClock") - read_after_sleep("SystemClock") == pytest.approx(SLEPT_S, abs=60)


def test_a_stopwatch_measures_by_its_clock_and_never_says_zero() -> None:
    clock = VirtualClock()
    stopwatch = Stopwatch(clock)
    assert stopwatch.elapsed_ms == 1
    clock.pass_ms(5000)
    assert stopwatch.elapsed_ms == 5001


def read_after_sleep(clock: str) -> float:
    namespace = ["unshare", "--time", "--boottime", str(SLEPT_S), "--monotonic", "0", "--fork"]
    ran = subprocess.run([*namespace, sys.executable, "-c", AWAKE.format(clock)], capture_output=True, check=False)
    if ran.returncode:
        pytest.skip(f"no time namespace here: {ran.stderr.decode()[-200:]}")
    return float(ran.stdout)
