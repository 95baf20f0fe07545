"""The lines on stderr about waits and outages: at once, once a minute, and one when it goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.backup.outages import Outage
from offsite.cli.views.backup import SHOWN_AGAIN_S, OutageLines
from offsite.model.clock import SystemClock
from offsite.model.errors import KafkaTimeout
from offsite.monitor.waiting import Waiting


class StepClock(SystemClock):
    now_s = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s


FAILED = Outage(error=KafkaTimeout("a:9092 did not answer", hint="look"), attempts=1, since_ms=0, wait_s=1)


def test_a_wait_an_error_and_the_end_are_one_outage(capsys: pytest.CaptureFixture[str]) -> None:
    clock = StepClock()
    lines = OutageLines(clock)
    lines.worked()
    for waited_s in range(5, 30):
        lines.waiting(Waiting(subject="a:9092 has not answered", waited_s=waited_s))
        clock.now_s += 1
    lines(FAILED)
    for attempts in range(2, 100):
        clock.now_s += 1
        lines(replace(FAILED, attempts=attempts))
    lines(None)
    lines.worked()
    assert capsys.readouterr().err.splitlines() == [
        "waiting, for 5.0 s now: a:9092 has not answered",
        "waiting, and trying again: [OFF-1502] a:9092 did not answer",
        "hint: look",
        "waiting, for 1 min 30 s now: [OFF-1502] a:9092 did not answer",
        "working again after 2 min 08 s",
    ]


def test_a_wait_that_lasts_is_told_once_a_minute_and_ends_with_the_round(capsys: pytest.CaptureFixture[str]) -> None:
    clock = StepClock()
    lines = OutageLines(clock)
    for waited_s in range(5, 5 + 2 * int(SHOWN_AGAIN_S)):
        lines.waiting(Waiting(subject="no progress in orders-0", waited_s=waited_s))
        clock.now_s += 1
    lines.worked()
    lines.waiting(Waiting(subject="no progress in orders-1", waited_s=5))
    shown = capsys.readouterr().err.splitlines()
    assert [each.partition(" now")[0] for each in shown] == [
        "waiting, for 5.0 s",
        "waiting, for 1 min 05 s",
        "working again after 2 min 05 s",
        "waiting, for 5.0 s",
    ]
