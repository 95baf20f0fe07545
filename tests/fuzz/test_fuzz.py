"""Whatever bytes come: right data, named damage or a named error, within 1 GiB and 10 s (`limits`).

A failure says how to see its mutant again. Another seed: OFFSITE_FUZZ_SEED; more or fewer in the soak:
OFFSITE_FUZZ_MUTANTS.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.fuzz.fuzzer import Fuzzer, Round
from tests.fuzz.targets import BOMB_TARGETS, TARGETS

SEED = int(os.environ.get("OFFSITE_FUZZ_SEED", "1"))
MUTANTS = 40
MUTANTS_OF_REPOSITORIES = 20
"""All that reads a repository reads each of these: a third of a second each."""
MUTANTS_IN_SOAK = int(os.environ.get("OFFSITE_FUZZ_MUTANTS", "2000"))


@pytest.fixture(scope="module")
def fuzzer() -> Iterator[Fuzzer]:
    """One worker for all targets: most of a short round would be its start."""
    with Fuzzer() as running:
        yield running


def check(done: Round) -> None:
    if done.failures:
        pytest.fail(done.report(), pytrace=False)


@pytest.mark.parametrize("name", TARGETS)
def test_a_mutant_ends_as_right_data_or_by_a_name(name: str, fuzzer: Fuzzer) -> None:
    is_repository = name.startswith(("golden", "repository"))
    check(fuzzer.run(name, seed=SEED, indexes=range(MUTANTS_OF_REPOSITORIES if is_repository else MUTANTS)))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TARGETS)
def test_thousands_of_mutants_do(name: str, fuzzer: Fuzzer) -> None:
    check(fuzzer.run(name, seed=SEED, indexes=range(MUTANTS_IN_SOAK)))


@pytest.mark.soak
@pytest.mark.parametrize("name", BOMB_TARGETS)
def test_a_few_bytes_that_grow_beyond_all_bounds_end_by_a_name(name: str, fuzzer: Fuzzer) -> None:
    done = fuzzer.run(name, seed=SEED, indexes=range(1))
    check(done)
    assert dict(done.outcomes) == {"NAMED": 1}
