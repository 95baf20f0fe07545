"""Which errors are waited out, for how long, and what is told of it."""

from __future__ import annotations

import pytest

from offsite.backup.outages import LONGEST_WAIT_S, Outage, Outages
from offsite.model.errors import (
    BackupExists,
    Bug,
    CommitLost,
    CommitsGone,
    KafkaAuthenticationFailed,
    KafkaUnreachable,
    NoSuchTopic,
    OffsiteError,
    OtherCluster,
    SourceTruncated,
    SparkFailed,
    StoreDenied,
    StoreUnreachable,
)
from tests.virtual_time import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(100.0, epoch_ms=0)


def outages(clock: VirtualClock, told: list[Outage | None], *, limit_s: float = 3600) -> Outages:
    return Outages(give_up_after_s=limit_s, clock=clock, on_outage=told.append)


def wait_for_ever(waiting: Outages) -> None:
    while True:
        waiting.wait(KafkaUnreachable("gone", hint=""))


WAITED_OUT = (KafkaUnreachable, StoreUnreachable, SparkFailed, CommitLost, SourceTruncated)
LASTING = (BackupExists, OtherCluster, CommitsGone, Bug)
LASTING_AT_FIRST = (KafkaAuthenticationFailed, StoreDenied, NoSuchTopic)


@pytest.mark.parametrize("kind", WAITED_OUT)
def test_what_may_come_back_is_waited_for(clock: VirtualClock, kind: type[OffsiteError]) -> None:
    told: list[Outage | None] = []
    outages(clock, told).wait(kind("gone", hint=""))
    (outage,) = told
    assert outage is not None
    assert (outage.attempts, outage.since_ms, outage.error.message) == (1, 100_000, "gone")
    assert clock.slept_s == [outage.wait_s]


@pytest.mark.parametrize("kind", LASTING)
def test_what_does_not_mend_itself_ends_the_run(clock: VirtualClock, kind: type[OffsiteError]) -> None:
    waiting = outages(clock, [])
    waiting.worked()
    with pytest.raises(kind):
        waiting.wait(kind("wrong", hint=""))
    assert clock.slept_s == []


@pytest.mark.parametrize("kind", LASTING_AT_FIRST)
def test_a_lack_of_rights_is_a_mistake_at_first_and_an_outage_later(
    clock: VirtualClock, kind: type[OffsiteError]
) -> None:
    waiting = outages(clock, [])
    with pytest.raises(kind):
        waiting.wait(kind("denied", hint=""))
    waiting.worked()
    waiting.wait(kind("denied", hint=""))
    assert len(clock.slept_s) == 1


def test_pauses_grow_to_a_limit_and_then_the_error_is_raised(clock: VirtualClock) -> None:
    told: list[Outage | None] = []
    waiting = outages(clock, told, limit_s=200)
    with pytest.raises(KafkaUnreachable):
        wait_for_ever(waiting)
    assert clock.slept_s[0] <= 1 < clock.slept_s[-1] <= LONGEST_WAIT_S
    assert 200 <= sum(clock.slept_s) <= 200 + LONGEST_WAIT_S
    assert {each.since_ms for each in told if each is not None} == {100_000}


def test_the_time_counts_anew_after_a_round_that_went_well(clock: VirtualClock) -> None:
    told: list[Outage | None] = []
    waiting = outages(clock, told, limit_s=40)
    for _ in range(20):
        waiting.wait(KafkaUnreachable("gone", hint=""))
        waiting.worked()
    assert told.count(None) == 20
    assert waiting.current is None
