"""Memory does not grow with the markers of a partition, only with what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.backup.marker_growth import write_partition

ONE_INDEX_MIB = 30
"""What one sidecar of 200,000 markers takes while it is read, with some room."""
BAR_MIB = 100


def grown_mib(folder: Path) -> float:
    command = [sys.executable, "-m", "tests.integration.backup.marker_growth", str(folder)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    return float(ended.stdout)


def test_a_million_markers_take_no_more_than_one_index_does(tmp_path: Path) -> None:
    write_partition(tmp_path, markers=1_000_000, producers=8, aborted=0.05)
    assert grown_mib(tmp_path) < ONE_INDEX_MIB


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("aborted", [0.05, 1, 2], ids=["few aborted", "all aborted", "every second one of a producer"])
def test_twenty_million_markers_take_less_than_100_mib(tmp_path: Path, aborted: float) -> None:
    write_partition(tmp_path, markers=20_000_000, producers=8, aborted=aborted)
    assert grown_mib(tmp_path) < BAR_MIB


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_million_producers_take_less_than_100_mib(tmp_path: Path) -> None:
    write_partition(tmp_path, markers=4_000_000, producers=1_000_000, aborted=0.02)
    assert grown_mib(tmp_path) < BAR_MIB
