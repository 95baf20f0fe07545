from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from offsite.log.records.record_columns import rare_collections


@pytest.fixture(autouse=True)
def _usual_thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_the_collector_comes_less_often_inside_and_as_before_behind() -> None:
    with rare_collections():
        assert gc.get_threshold() == (20_000, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_an_exception_leaves_it_as_before() -> None:
    with pytest.raises(KeyError), rare_collections():
        raise KeyError
    assert gc.get_threshold() == (700, 10, 10)


def test_of_two_that_overlap_the_last_one_to_end_puts_it_back() -> None:
    first, second = rare_collections(), rare_collections()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == (20_000, 10, 10)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("young", [0, 50_000])
def test_a_process_that_collects_less_often_or_never_goes_on_so(young: int) -> None:
    gc.set_threshold(young, 10, 10)
    with rare_collections():
        assert gc.get_threshold()[0] == young
