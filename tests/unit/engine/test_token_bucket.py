from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offsite.engine.rate_server import (
    BURST_S,
    LEAST_PORTION_BYTES,
    OUTSTANDING_S,
    PORTION_S,
    TokenBucket,
)

RATE = 1_000_000
SIZES = st.integers(1, RATE)
PAUSES_S = st.floats(0, 3)


@given(st.lists(st.tuples(SIZES, PAUSES_S), max_size=50))
def test_no_window_sees_more_than_the_rate_lets_through(takes: list[tuple[int, float]]) -> None:
    """One take may have been begun before the window, and an idle bucket has saved up a little."""
    bucket, now_s = TokenBucket(RATE, now_s=5.0), 5.0
    paid: list[tuple[float, int]] = []
    for size, pause_s in takes:
        now_s += pause_s
        paid.append((now_s + bucket.take(size, now_s), size))
    assert paid == sorted(paid, key=lambda each: each[0]), "first come, first served"
    for first in range(len(paid)):
        for last in range(first + 1, len(paid)):
            moved = sum(size for _, size in paid[first + 1 : last + 1])
            assert moved <= RATE * (paid[last][0] - paid[first][0] + BURST_S) + 1


def test_a_bucket_begins_empty() -> None:
    assert TokenBucket(RATE, now_s=5.0).take(RATE, 5.0) == 1.0


def test_whoever_always_wants_more_gets_the_whole_rate_though_late_each_time() -> None:
    bucket, now_s, moved = TokenBucket(RATE, now_s=0.0), 0.0, 0
    while now_s < 100:
        now_s += bucket.take(100_000, now_s) + 0.03  # the pause was a little longer, and work takes a while
        moved += 100_000
    assert 0.99 * RATE * now_s < moved <= RATE * now_s


def test_an_idle_bucket_saves_up_little() -> None:
    bucket = TokenBucket(RATE, now_s=0.0)
    assert bucket.take(RATE, 1000.0) == 1.0 - BURST_S


def test_users_hold_little_however_many_they_are() -> None:
    bucket = TokenBucket(100 * RATE, now_s=0.0)
    assert bucket.portion_bytes(1) == 100 * RATE * PORTION_S
    for users in (10, 100):
        assert bucket.portion_bytes(users) * users <= 100 * RATE * OUTSTANDING_S
    assert bucket.portion_bytes(1_000_000) == LEAST_PORTION_BYTES
