"""What the view of a run that follows says of outages, as rounds fail and go well again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from offsite.backup.outages import Outage
from offsite.follow.watch import FollowWatch
from offsite.model.clock import SystemClock
from offsite.model.errors import KafkaUnreachable
from offsite.monitor.view import FollowState, FollowView
from tests.unit.monitor.views import FINE

FAILED = Outage(error=KafkaUnreachable("gone", hint=""), attempts=1, since_ms=1000, wait_s=1.0)


def views(*told: Outage | None) -> list[FollowView]:
    """Those that are shown when a backup that was up to date is told of these outages."""
    shown: list[FollowView] = []
    nothing = cast("Any", None)
    watch = FollowWatch(FINE, backup=nothing, settings=nothing, clock=SystemClock(), show=shown.append)
    for each in told:
        watch.outage(each)
    return shown


def test_an_outage_ends_with_the_first_commit_and_not_all_is_there_then() -> None:
    during, after = views(FAILED, None)
    assert (during.state, after.state) == (FollowState.OUTAGE, FollowState.CATCHING_UP)


def test_each_outage_is_counted_once_and_each_attempt() -> None:
    *_, last = views(FAILED, replace(FAILED, attempts=2), None, FAILED)
    before = FINE.outages.get("OFF-1501", 0), FINE.retries.get("OFF-1501", 0)
    assert (last.outages["OFF-1501"] - before[0], last.retries["OFF-1501"] - before[1]) == (2, 3)


def test_a_commit_without_an_outage_before_changes_nothing() -> None:
    assert views(None) == []
