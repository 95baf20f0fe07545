"""A run that follows tells changes of its state, and neither commits nor attempts."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.backup.outages import Outage
from offsite.model.errors import KafkaUnavailable
from offsite.notify.changes import FollowChanges


class StillClock:
    now_s = 0.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s


@dataclass
class Left:
    error: str = "OFF-1701"


class Watched:
    def __init__(self) -> None:
        self.clock, self.kinds = StillClock(), list[str]()
        self.changes = FollowChanges(lambda kind, **_: self.kinds.append(kind.value), clock=self.clock)

    def outage_of(self, seconds: int) -> None:
        began_ms = self.clock.now_ms()
        for attempt in range(seconds // 10 + 1):
            error = KafkaUnavailable("no broker answers")
            self.changes.outage(Outage(error=error, attempts=attempt + 1, since_ms=began_ms, wait_s=10))
            self.clock.sleep(10)
        self.changes.outage(None)


def test_an_outage_is_told_after_a_minute_once_and_its_end() -> None:
    watched = Watched()
    watched.outage_of(50)
    assert watched.kinds == []
    watched.outage_of(600)
    assert watched.kinds == ["outage", "outage_over"]


def test_outages_that_come_and_go_are_told_rarely_and_one_that_lasts_always() -> None:
    watched = Watched()
    for _ in range(20):
        watched.outage_of(120)
    assert watched.kinds == ["outage", "outage_over"]
    watched.outage_of(900)
    assert watched.kinds == ["outage", "outage_over"] * 2


def test_partitions_left_behind_are_told_once_and_when_all_are_copied_again() -> None:
    watched = Watched()
    for left in ([Left()], [Left(), Left()], [], []):
        watched.changes.round(left)
    assert watched.kinds == ["left_behind", "caught_up", "round"]


def test_rounds_are_told_once_a_minute() -> None:
    watched = Watched()
    for _ in range(13):
        watched.changes.round([])
        watched.clock.sleep(10)
    assert watched.kinds == ["round"] * 3


def test_a_round_that_finds_losses_tells_each_time() -> None:
    watched = Watched()
    for losses in ([], ["orders", "orders"], [], ["users"]):
        watched.changes.round([], losses=losses)
    assert watched.kinds == ["round", "loss", "loss"]


def test_partitions_left_behind_are_told_again_after_an_outage_is_over() -> None:
    watched = Watched()
    watched.changes.round([Left()])
    watched.outage_of(90)
    watched.changes.round([Left()])
    watched.changes.round([Left()])
    assert watched.kinds == ["left_behind", "outage", "outage_over", "left_behind"]
