"""Does the process live, is the backup up to date, and why not?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.model.errors import KafkaUnreachable
from offsite.monitor.view import FollowView, liveness, readiness, round_limit_s, silence_limit_s
from tests.unit.monitor.views import FINE, FULL, NEW, NOW_MS, ORDERS, OUTAGE


def ready(view: FollowView, *, round_ended_s: float = 1, waiting: str = "") -> tuple[bool, str]:
    found = readiness(view, silent_s=1, round_ended_s=round_ended_s, now_ms=NOW_MS, waiting=waiting)
    return found.ok, found.reason


@pytest.mark.parametrize("view", [NEW, FULL, FINE])
def test_who_was_heard_lives_and_who_was_not_is_stuck(view: FollowView) -> None:
    limit_s = silence_limit_s(view)
    assert liveness(view, silent_s=limit_s).ok
    dead = liveness(view, silent_s=limit_s + 1)
    assert not dead.ok
    assert dead.reason == "stuck: no sign of progress for 15 min 31 s, a round takes at most 15 min 30 s"
    assert not readiness(view, silent_s=limit_s + 1, round_ended_s=1, now_ms=NOW_MS).ok


def test_the_limit_follows_the_interval() -> None:
    assert silence_limit_s(replace(NEW, interval_s=3600)) == 3 * 3600 + 900


def test_an_outage_is_alive_and_not_ready() -> None:
    assert liveness(FULL, silent_s=1).ok
    assert ready(FULL) == (False, "outage since 2027-01-15T07:55:00.000Z (5 min 00 s): OFF-1501 no broker answers")


def test_an_error_cannot_write_lines_of_its_own() -> None:
    told = KafkaUnreachable("x\r\nSet-Cookie: a\x1b[2J" + "y" * 9999, hint="")
    ok, reason = ready(replace(FULL, outage=replace(OUTAGE, error=told)))
    assert not ok
    assert reason.isprintable()
    assert len(reason) < 500


def test_ready_means_that_all_was_copied() -> None:
    behind = (replace(ORDERS, lag_records=1234),)
    assert ready(NEW) == (False, "no complete round yet")
    assert ready(replace(FINE, passes=0, pass_complete=False, topics=behind)) == (
        False,
        "no complete round yet, 1,234 records behind",
    )
    failing = replace(FINE, pass_complete=False, failed={"OFF-1503": 2, "OFF-1301": 1})
    assert ready(failing) == (False, "the newest round is not complete, partitions failed (OFF-1301: 1, OFF-1503: 2)")
    assert ready(FINE) == (True, "up to date: 4711 is the newest commit")


@pytest.mark.parametrize(("interval_s", "limit_s"), [(0.3, 15), (10, 30), (300, 900)])
def test_a_round_that_does_not_end_is_not_ready_whatever_the_one_before_found(
    interval_s: float, limit_s: float
) -> None:
    view = replace(FINE, interval_s=interval_s)
    assert round_limit_s(view) == limit_s
    assert ready(view, round_ended_s=limit_s)[0]
    assert not ready(view, round_ended_s=limit_s + 1)[0]


def test_it_says_since_when_and_what_it_waits_for() -> None:
    waiting = "broker-2:9092 has not answered, for 25.0 s"
    view = replace(FINE, interval_s=10)
    told = "no round has ended for 31.0 s, the interval is 10.0 s"
    assert ready(view, round_ended_s=31) == (False, told)
    assert ready(view, round_ended_s=31, waiting=waiting) == (False, f"{told}: {waiting}")
    assert ready(NEW, waiting=waiting) == (False, f"no complete round yet: {waiting}")
    assert ready(view, waiting=waiting)[0], "a wait alone says nothing of what was committed"
