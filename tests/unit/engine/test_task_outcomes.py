from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from offsite.engine.jobs import TaskOutcomes
from offsite.engine.meter import MeterReading, ProgressDatagram
from offsite.engine.runner import Done, Failed, Runner
from offsite.engine.task_attempt import Envelope
from offsite.model.errors import DamagedBatch, SparkFailed
from tests.inline_runner import InlineRunner


def done(index: int, value: str = "ok", *, moved_bytes: int = 0, peak_rss_bytes: int = 0) -> Envelope[str]:
    reading = MeterReading(moved_bytes=moved_bytes, records=1)
    return Envelope(index=index, outcome=Done(value=value), reading=reading, peak_rss_bytes=peak_rss_bytes)


def failed(index: int, message: str) -> Envelope[str]:
    outcome = Failed(error=DamagedBatch(message, hint=""), trace="")
    return Envelope(index=index, outcome=outcome, reading=MeterReading(), peak_rss_bytes=0)


def test_outcomes_are_in_the_order_of_tasks_however_they_arrive() -> None:
    results: TaskOutcomes[str] = TaskOutcomes(3)
    for index in (2, 0, 1):
        results.take(done(index, str(index)))
    assert list(results.outcomes()) == [Done(value="0"), Done(value="1"), Done(value="2")]
    assert results.open_tasks() == []


def test_a_second_envelope_of_a_task_changes_nothing() -> None:
    results: TaskOutcomes[str] = TaskOutcomes(2)
    results.take(done(0, "first", moved_bytes=5))
    results.take(done(0, "second", moved_bytes=5))
    assert list(results.outcomes()) == [Done(value="first")]
    assert results.progress(elapsed_s=0).moved_bytes == 5


class Backwards(InlineRunner):
    """Tells the outcome of the last task first."""

    run, run_all = Runner.run, Runner.run_all

    def run_each(self, tasks: Sequence[str], function: Callable[[str], str], on_outcome: Any, **options: Any) -> None:
        super().run_each(tasks[::-1], function, lambda index, outcome: on_outcome(len(tasks) - 1 - index, outcome))


def refuse(name: str) -> str:
    if name != "good":
        raise DamagedBatch(name, hint="")
    return name


def test_the_error_that_is_raised_is_that_of_the_lowest_task() -> None:
    with pytest.raises(DamagedBatch, match="early"):
        Backwards().run(["good", "early", "late"], refuse)


def test_results_are_in_the_order_of_tasks_however_they_are_told() -> None:
    assert Backwards().run(["a", "b"], str.upper) == ["A", "B"]
    assert Backwards().run_all(["a", "b"], str.upper) == [Done(value="A"), Done(value="B")]


def test_a_task_given_up_counts_as_failed() -> None:
    results: TaskOutcomes[str] = TaskOutcomes(2)
    results.give_up(1, SparkFailed("lost", hint=""))
    assert results.open_tasks() == [0]
    assert results.progress(elapsed_s=0).tasks_failed == 1


def test_progress_adds_running_tasks_to_settled_ones_and_counts_none_twice() -> None:
    results: TaskOutcomes[str] = TaskOutcomes(2)
    results.take_progress(ProgressDatagram(index=0, reading=MeterReading(moved_bytes=3, records=1)))
    results.take_progress(ProgressDatagram(index=0, reading=MeterReading(moved_bytes=7, records=2)))
    results.take(done(1, moved_bytes=10))
    assert results.progress(elapsed_s=0).moved_bytes == 17
    results.take(done(0, moved_bytes=8))
    results.take_progress(
        ProgressDatagram(index=0, reading=MeterReading(moved_bytes=7, records=2))
    )  # a datagram that came late
    assert results.progress(elapsed_s=0).moved_bytes == 18


def test_progress_shows_the_largest_worker() -> None:
    results: TaskOutcomes[str] = TaskOutcomes(2)
    results.take(done(0, peak_rss_bytes=9))
    results.take(done(1, peak_rss_bytes=4))
    assert results.progress(elapsed_s=1.5).worker_peak_rss_bytes == 9
