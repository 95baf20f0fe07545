"""A signal waits for the end of a block that it must not break, and a second one does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from offsite.model.uninterrupted import interrupt, notify_interruption, uninterrupted


def interrupted(block: Callable[[], object]) -> bool:
    """Whether `block`, run to its end or not, ends in an interruption."""
    try:
        with uninterrupted():
            block()
    except KeyboardInterrupt:
        return True
    return False


def test_outside_such_a_block_it_interrupts_at_once() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_a_block_is_ended_first() -> None:
    steps: list[str] = []
    assert interrupted(lambda: (interrupt(), steps.append("ended")))
    assert steps == ["ended"]
    assert not interrupted(lambda: steps.append("no longer pending"))


def test_a_block_in_a_block_waits_for_the_outer_one() -> None:
    steps: list[bool] = []
    assert interrupted(lambda: steps.append(interrupted(interrupt)))
    assert steps == [False]


def test_who_asks_again_does_not_want_to_wait() -> None:
    steps: list[str] = []
    assert interrupted(lambda: (interrupt(), interrupt(), steps.append("never")))
    assert steps == []
    assert not interrupted(lambda: None)


def test_an_error_of_the_block_comes_before_the_interruption() -> None:
    with pytest.raises(ZeroDivisionError):
        interrupted(lambda: (interrupt(), 1 // 0))
    assert interrupted(lambda: None)


def test_somebody_is_told_before_the_block_has_ended() -> None:
    told: list[str] = []
    with notify_interruption(lambda: told.append("told")):
        assert interrupted(lambda: (interrupt(), told.append("ended")))
    assert told == ["told", "ended"]


def test_everybody_who_wants_to_be_told_is_told() -> None:
    calls: list[str] = []
    with notify_interruption(lambda: calls.append("outer")):
        with notify_interruption(lambda: calls.append("inner")), pytest.raises(KeyboardInterrupt):
            interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupt()
    assert calls == ["outer", "inner", "outer"]
