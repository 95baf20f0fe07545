"""Each long test belongs to one part. That none is lost, every run asks of what it collects (`tests/conftest.py`)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.soak_parts import PARTS, part_of, strays

ROOT = Path(__file__).parents[3]
BEGINNINGS = [beginning for beginnings in PARTS.values() for beginning in beginnings]


def test_the_longest_beginning_counts() -> None:
    assert part_of("tests/integration/pipeline/test_memory.py::test_a") == "spark"
    assert part_of("tests/integration/pipeline/test_cluster_ends.py::test_a[b]") == "spark-cluster"
    assert part_of("tests/fuzz/test_fuzz.py::test_thousands_of_mutants_do[golden-format-1]") == "fuzz-repositories"
    assert part_of("tests/fuzz/test_fuzz.py::test_thousands_of_mutants_do[batch-none]") == "fuzz"


def test_no_beginning_belongs_to_two_parts() -> None:
    assert [beginning for beginning, count in Counter(BEGINNINGS).items() if count > 1] == []


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_each_beginning_is_there(beginning: str) -> None:
    file, _, function = beginning.partition("::")
    assert (ROOT / file).exists()
    assert not function or f"def {function.partition('[')[0]}" in (ROOT / file).read_text(encoding="utf-8")


def test_a_test_of_no_part_is_told() -> None:
    assert list(strays(["tests/elsewhere/test_x.py::test_a", "tests/worlds/test_x.py::test_a"])) == [
        "tests/elsewhere/test_x.py::test_a"
    ]
