"""What a run says of itself while it waits: a task that lags behind, a cluster that gives no executor."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from offsite.engine.jobs import KNOWN_MIN, LONG_S, TELL_AFTER_S, ExecutorOutage, Stragglers
from offsite.engine.meter import MeterReading, ProgressDatagram
from offsite.model.clock import SystemClock, longest_wait
from offsite.model.errors import SparkFailed


@dataclass(frozen=True)
class Titled:
    title: str


class Passing(SystemClock):
    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


def said(index: int, host: str = "10.0.0.1", *, moved_bytes: int = 0) -> ProgressDatagram:
    return ProgressDatagram(index=index, reading=MeterReading(moved_bytes=moved_bytes), host=host)


def stragglers(*, took_s: float, ended: int = KNOWN_MIN) -> Stragglers:
    """After so many tasks that took so long; task 9 has run on another machine since the beginning."""
    found = Stragglers([Titled(f"orders/{number}") for number in range(10)])
    found.note_progress(said(9, "10.0.0.7"), at_s=0)
    for index in range(ended):
        found.note_progress(said(index), at_s=0)
        found.note_end(index, at_s=took_s)
    return found


def test_the_task_that_lags_behind_is_named_with_its_machine(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="offsite")
    found = stragglers(took_s=3)
    assert found.slowest(at_s=LONG_S - 1) == ""
    assert found.slowest(at_s=LONG_S + 10) == "orders/9 on 10.0.0.7 has run for 40.0 s, others took 3.0 s"
    found.slowest(at_s=LONG_S + 20)
    assert sum("straggler" in line for line in caplog.messages) == 1


def test_a_task_among_others_that_take_as_long_is_none() -> None:
    assert stragglers(took_s=60).slowest(at_s=200) == ""


def test_nothing_is_unusual_before_some_have_ended() -> None:
    assert stragglers(took_s=3, ended=KNOWN_MIN - 1).slowest(at_s=200) == ""


def test_an_attempt_elsewhere_begins_anew() -> None:
    found = stragglers(took_s=3)
    found.note_progress(said(9, "10.0.0.8"), at_s=100)
    assert found.slowest(at_s=110) == ""
    found.note_end(9, at_s=111)
    assert found.slowest(at_s=1000) == ""


def test_another_attempt_on_the_same_machine_begins_anew() -> None:
    found = stragglers(took_s=3)
    found.note_progress(said(9, "10.0.0.7", moved_bytes=5), at_s=100)
    assert found.slowest(at_s=110).startswith("orders/9 on 10.0.0.7 has run for 1 m")
    found.note_progress(said(9, "10.0.0.7"), at_s=120)
    found.note_progress(said(9, "10.0.0.7", moved_bytes=1), at_s=125)
    assert found.slowest(at_s=130) == ""
    assert found.slowest(at_s=160) == "orders/9 on 10.0.0.7 has run for 40.0 s, others took 3.0 s"


def test_a_cluster_without_executors_is_told_and_then_an_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="offsite")
    clock = Passing()
    alone = ExecutorOutage(60, clock)
    alone.mark_absent()
    clock.now_s = TELL_AFTER_S - 1
    assert alone.note() == ""
    clock.now_s = TELL_AFTER_S
    alone.mark_absent()
    assert alone.note() == "the Spark cluster has provided no executor for 10.0 s"
    assert sum("no_executor" in line for line in caplog.messages) == 1
    waiting = longest_wait()
    assert waiting is not None
    assert "no executor" in waiting.description
    clock.now_s = 60
    with pytest.raises(SparkFailed, match="no executor for 1 m"):
        alone.mark_absent()
    alone.mark_present()
    assert longest_wait() is None


def test_what_comes_from_an_executor_ends_the_waiting() -> None:
    clock = Passing()
    alone = ExecutorOutage(60, clock)
    alone.mark_absent()
    alone.mark_present()
    clock.now_s = 50
    alone.mark_absent()
    clock.now_s = 100
    alone.mark_absent()
    assert alone.note() == "the Spark cluster has provided no executor for 50.0 s"
    alone.mark_present()
