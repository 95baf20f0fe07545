"""The fuzzer finds what it is there for: faults planted in readers of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offsite.model.units import MIB
from tests.fuzz.fuzzer import Fuzzer, Round
from tests.fuzz.limits import Limits
from tests.fuzz.mutation import mutant
from tests.fuzz.targets import TARGETS


@pytest.fixture(scope="module")
def fuzzer() -> Iterator[Fuzzer]:
    with Fuzzer() as running:
        yield running


def one_mutant(name: str, fuzzer: Fuzzer) -> Round:
    return fuzzer.run(f"planted-{name}", seed=1, indexes=range(1))


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("raises", "ValueError in fuzz/planted.py:_raise"),
        ("breaks", "Bug in fuzz/planted.py:_break"),
        ("claims", "MemoryError in fuzz/planted.py:_claim"),
        ("lies", "silent change of file"),
    ],
)
def test_a_planted_fault_is_found_and_its_cause_is_said(name: str, cause: str, fuzzer: Fuzzer) -> None:
    (failure,) = one_mutant(name, fuzzer).failures
    assert failure.cause == cause
    assert f"python -m tests.fuzz planted-{name} 1 0" in str(failure)


@pytest.mark.parametrize(("name", "outcome"), [("denies", "NAMED"), ("admits", "VOUCHLESS"), ("repairs", "RIGHT")])
def test_what_may_be_is_no_failure(name: str, outcome: str, fuzzer: Fuzzer) -> None:
    done = one_mutant(name, fuzzer)
    assert (dict(done.outcomes), done.failures) == ({outcome: 1}, [])


def test_a_reader_that_kills_its_process_does_not_keep_the_next_mutants_from_being_read(fuzzer: Fuzzer) -> None:
    died = fuzzer.run("planted-dies", seed=1, indexes=range(2))
    assert died.causes == {"the process died with -11": 2}
    assert not fuzzer.run("planted-denies", seed=1, indexes=range(3)).failures


def test_a_reader_that_hangs_toils_or_hoards_is_told_of() -> None:
    with Fuzzer(Limits(seconds=0.3, memory_bytes=400 * MIB)) as fuzzer:
        (toiled,) = one_mutant("toils", fuzzer).failures
        (hoarded,) = one_mutant("hoards", fuzzer).failures
        (hung,) = one_mutant("hangs", fuzzer).failures
    assert toiled.cause == "took 0 s, and then: the same data"
    assert hoarded.cause.startswith("took ")
    assert hoarded.cause.endswith("MiB, and then: the same data")
    assert hung.cause == "no end within 3 s"
    assert "planted.py" in hung.trace


@pytest.mark.parametrize("name", ["repository-renewed", "export-osodevops-renewed", "batch-zstd-renewed"])
def test_a_number_is_the_same_mutant_for_ever(name: str) -> None:
    """Also of a corpus that was made twice."""
    first, second = ([mutant(TARGETS[name](), name=name, seed=1, index=index) for index in range(20)] for _ in range(2))
    assert first == second
    assert sum(each != TARGETS[name]().files for each in first) > 15
