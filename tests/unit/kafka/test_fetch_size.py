from __future__ import annotations

from offsite.kafka.read_task import FETCH_BYTES, FIRST_FETCH_BYTES, FetchSize


def test_the_first_fetch_is_small() -> None:
    assert FetchSize().ask_bytes(1_000_000) == FIRST_FETCH_BYTES


def test_the_middle_of_a_range_is_read_in_large_bites() -> None:
    size = FetchSize()
    size.learn(1000, 200_000)
    assert size.ask_bytes(1_000_000) == FETCH_BYTES


def test_the_end_of_a_range_asks_for_little_more_than_is_left() -> None:
    size = FetchSize()
    size.learn(1000, 200_000)
    assert 20_000 < size.ask_bytes(100) < 100_000


def test_a_limit_makes_bites_smaller_but_for_a_batch_that_needs_more() -> None:
    size = FetchSize()
    assert size.ask_bytes(1_000_000, most=50_000) == 50_000
    size.grow()
    assert size.ask_bytes(1, most=50_000) == 2 * FETCH_BYTES


def test_small_bites_end_with_a_batch() -> None:
    size = FetchSize()
    size.learn_batches(30_000)
    assert size.ask_bytes(1_000_000, most=50_000) == 30_000
    assert size.ask_bytes(1_000_000, most=100_000) == 90_000
    assert size.ask_bytes(1_000_000, most=20_000) == 20_000


def test_a_batch_that_does_not_fit_doubles_the_bite_up_to_a_limit() -> None:
    size = FetchSize()
    assert size.grow()
    assert size.ask_bytes(1) == 2 * FETCH_BYTES
    for _ in range(20):
        grew = size.grow()
    assert not grew
