from __future__ import annotations

import logging

import pytest

from offsite.kafka.net.backoff import Backoff
from offsite.model.errors import KafkaUnreachable
from tests.virtual_time import VirtualClock


def test_waits_grow_and_end_with_the_error() -> None:
    clock, error = VirtualClock(), KafkaUnreachable("gone")
    backoff = Backoff(clock, limit_s=30)
    while clock.now_s < 30:
        backoff.wait(error)
    with pytest.raises(KafkaUnreachable, match="gone"):
        backoff.wait(error)
    assert 30 <= clock.now_s < 33
    assert clock.slept_s[0] <= 0.05
    assert 1.0 <= clock.slept_s[-1] <= 2.0


def test_time_counts_from_the_first_failure_not_from_the_last_success() -> None:
    clock = VirtualClock()
    backoff = Backoff(clock, limit_s=10)
    clock.sleep(1000)
    backoff.wait(KafkaUnreachable("gone"))


def test_progress_starts_the_count_anew() -> None:
    clock = VirtualClock()
    backoff = Backoff(clock, limit_s=5)
    for _ in range(50):
        backoff.wait(KafkaUnreachable("gone"))
        clock.sleep(3)
        backoff.reset()


def test_each_wait_is_a_line_of_the_journal_and_so_is_the_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="offsite")
    clock, error = VirtualClock(), KafkaUnreachable("broker 1 is gone")
    backoff = Backoff(clock, limit_s=0.01)
    backoff.wait(error)
    with pytest.raises(KafkaUnreachable):
        backoff.wait(error)
    retry, gave_up = caplog.messages
    told = f"wait_s={clock.slept_s[0]:.3f} failing_s=0.000"
    assert retry == f'retry attempt=1 {told} error=OFF-1501 why="broker 1 is gone"'
    assert gave_up.startswith("gave_up attempts=1 failing_s=0.0")
