"""How long something was so: by looks, never by a clock that can be set."""

from __future__ import annotations

from offsite.operator.folder.declarations import StabilizationWindow

HOUR_S = 3600.0


def left(steady: StabilizationWindow, what: str, now_s: float, now_ms: int = 0) -> float:
    return steady.look("shop", what, now_s=now_s, now_ms=now_ms).remaining_s


def test_what_is_the_same_in_look_after_look_is_enough_after_that_time() -> None:
    steady = StabilizationWindow(enough_s=HOUR_S)
    seen = [left(steady, "away", now_s) for now_s in range(0, 3602, 2)]

    assert (seen[0], seen[1], seen[-2], seen[-1]) == (HOUR_S, HOUR_S - 2, 2, 0)


def test_what_is_another_thing_or_was_forgotten_begins_anew() -> None:
    steady = StabilizationWindow(enough_s=8.0)
    for now_s in (0, 2, 4):
        left(steady, "one", now_s)

    assert left(steady, "other", 6) == 8
    assert left(steady, "one", 8) == 8
    steady.forget("shop")
    assert left(steady, "one", 10) == 8


def test_a_process_that_was_stopped_has_seen_nothing_of_that_time() -> None:
    steady = StabilizationWindow(enough_s=HOUR_S)
    left(steady, "away", 0)

    assert left(steady, "away", 100 * HOUR_S) == HOUR_S * 3 / 4


def test_no_clock_that_is_set_counts() -> None:
    steady = StabilizationWindow(enough_s=HOUR_S)
    left(steady, "away", 0, now_ms=0)

    assert left(steady, "away", 2, now_ms=10**12) == HOUR_S - 2
    assert left(steady, "away", 1) == HOUR_S - 2, "and none that goes back"


def test_a_time_of_nothing_is_enough_at_once() -> None:
    assert StabilizationWindow(enough_s=0).look("shop", "x", now_s=1, now_ms=1).is_stable
