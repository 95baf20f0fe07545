"""Whatever happens to a source, a backup names exactly what it holds, what is lost, and why."""

from __future__ import annotations

import logging

import pytest

from tests.source_events.play import problem_of

SCHEDULES = 300
MANY = 10_000


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="offsite")


def test_the_state_names_what_is_held_and_lost_whatever_happens() -> None:
    assert [problem for number in range(SCHEDULES) if (problem := problem_of(number))] == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_state_names_what_is_held_and_lost_over_many_schedules() -> None:
    assert [problem for number in range(MANY) if (problem := problem_of(number))] == []
