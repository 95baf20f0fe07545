"""Form B: leases, acknowledgements, and when nothing may be produced."""

from __future__ import annotations

import pytest

from offsite_participant.control import AckRecord, ControlRecord, SignRecord, parse_record
from offsite_participant.core import Hooks
from offsite_participant.errors import ControlUnavailable, LeaseLost, NotDelivered
from offsite_participant.membership import Lease, beat_every_ms, delivery_timeout_ms
from offsite_participant.number import Form
from tests.unit.participant.participant_world import IN, LEASE_MS, OUT, World


@pytest.fixture
def world() -> World:
    world = World(is_form_b=True)
    world.core.start()
    world.core.assigned([IN])
    return world


def said(world: World) -> list[str]:
    return [short(parse_record(value)) for value in world.control]


def short(record: ControlRecord | None) -> str:
    match record:
        case SignRecord():
            return f"{record.sign} {record.session.id}"
        case AckRecord():
            return f"ack {record.id} {record.session.id}"
    return f"open {record.id}" if record else "?"


def test_a_lease_leaves_time_for_what_was_just_handed_over() -> None:
    lease = Lease(lease_ms=1_000, confirmed_ms=100)
    assert lease.holds(600)
    assert not lease.holds(601)
    assert beat_every_ms(1_000) < 500
    assert 500 + delivery_timeout_ms(1_000) + delivery_timeout_ms(1_000) // 2 < 1_000
    assert lease.confirmed(50) == lease


def test_it_joins_before_it_reads() -> None:
    """Else a checkpoint opened in between is heard by nobody and waits for nobody."""

    def late(value: bytes) -> None:
        world.open(5, Form.ACKS)
        append(value)

    world = World(is_form_b=True)
    append, world.append = world.append, late  # type: ignore[method-assign]
    world.core.start()
    assert said(world) == ["open 5", "join s1"]
    assert world.core.number == 5


def test_it_may_not_produce_before_it_has_read() -> None:
    world = World(is_form_b=True)
    away = world.read_from
    world.read_from = lambda _offset: (_ for _ in ()).throw(ControlUnavailable("away"))  # type: ignore[method-assign]
    with pytest.raises(ControlUnavailable):
        world.core.start()
    with pytest.raises(LeaseLost):
        world.stamp()
    world.read_from = away  # type: ignore[method-assign]
    world.open(5)
    world.core.tick()
    assert world.stamp() == 5


def test_it_acknowledges_once_all_that_it_produced_before_has_arrived(world: World) -> None:
    world.open(5, Form.ACKS)
    world.on_the_way = [(OUT, 9)]
    world.now = 25
    world.core.tick()
    world.core.tick()
    assert [each if each == "flush" else "ack" for each in world.done[1:]] == ["flush", "ack"]
    assert said(world) == ["join s1", "open 5", "ack 5 s1"]
    assert world.stamp() == 5


def test_it_acknowledges_nothing_that_goes_by_markers(world: World) -> None:
    world.open(5, Form.MARKERS)
    world.now = 25
    world.core.tick()
    assert world.core.number == 5
    assert said(world) == ["join s1", "open 5"]


def test_a_checkpoint_heard_of_by_a_stamp_is_acknowledged_too(world: World) -> None:
    world.open(5, Form.ACKS)
    world.core.received(world.record(0, number=5))
    world.core.tick()
    assert said(world)[-1] == "ack 5 s1"


def test_it_does_not_acknowledge_what_may_still_arrive(world: World) -> None:
    """The session falls silent, and another one begins: whoever waits, waits for the whole lease."""
    world.core.received(world.record(0))
    world.open(5, Form.ACKS)
    world.undelivered = ["timed out"]
    world.now = 25
    world.core.tick()
    assert said(world) == ["join s1", "open 5"]
    with pytest.raises(NotDelivered):
        world.stamp()
    world.core.tick()
    assert said(world) == ["join s1", "open 5", "join s2", "ack 5 s2"]
    assert world.sought == {IN: 0}


def test_an_acknowledgement_that_failed_is_said_again(world: World) -> None:
    world.open(5, Form.ACKS)
    world.now = 25
    append = world.append
    world.append = lambda _value: (_ for _ in ()).throw(ControlUnavailable("away"))  # type: ignore[method-assign]
    with pytest.raises(ControlUnavailable):
        world.core.tick()
    world.append = append  # type: ignore[method-assign]
    world.core.tick()
    assert said(world)[-1] == "ack 5 s1"


def test_it_beats_when_a_third_of_the_lease_is_over(world: World) -> None:
    world.now = 332
    world.core.beat()
    assert said(world) == ["join s1"]
    world.now = 333
    world.core.beat()
    world.core.beat()
    assert said(world) == ["join s1", "beat s1"]
    world.now = 333 + LEASE_MS // 2
    world.stamp()


def test_it_does_not_produce_when_the_last_beat_is_half_a_lease_old(world: World) -> None:
    world.now = LEASE_MS // 2
    world.stamp()
    world.now += 1
    with pytest.raises(LeaseLost):
        world.stamp()


def test_a_beat_counts_from_when_it_was_sent(world: World) -> None:
    def slow(value: bytes) -> None:
        append(value)
        world.now = 900

    append, world.append = world.append, slow  # type: ignore[method-assign]
    world.now = 350
    world.core.beat()
    with pytest.raises(LeaseLost):
        world.stamp()


def test_a_beat_that_did_not_arrive_does_not_count(world: World) -> None:
    world.now = 400
    world.is_control_away = True
    with pytest.raises(ControlUnavailable):
        world.core.beat()
    world.now = 600
    with pytest.raises(LeaseLost):
        world.stamp()


def test_a_lost_session_never_beats_again(world: World) -> None:
    world.now = 600
    world.core.beat()
    assert said(world) == ["join s1"]


def test_after_the_loss_it_joins_anew_and_handles_again_what_it_could_not_write(world: World) -> None:
    world.core.received(world.record(0))
    world.core.commit()
    world.core.received(world.record(1))
    world.now = 600
    world.open(5, Form.ACKS)
    with pytest.raises(LeaseLost):
        world.stamp()
    with pytest.raises(LeaseLost):
        world.core.commit()
    world.core.tick()
    assert said(world)[:3] == ["join s1", "open 5", "join s2"]
    assert world.sought == {IN: 1}
    assert world.stamp() == 5


def test_a_loss_that_kept_it_from_nothing_takes_nothing_back(world: World) -> None:
    world.core.received(world.record(0))
    world.now = 600
    world.core.tick()
    assert said(world) == ["join s1", "join s2"]
    world.core.commit()
    assert world.commits[IN].offset == 1


def test_what_was_sent_is_waited_for_before_it_joins_anew(world: World) -> None:
    world.now = 600
    world.core.tick()
    assert world.done[1] == "flush"
    assert '"join"' in world.done[2]


def test_it_leaves_when_all_has_arrived(world: World) -> None:
    world.core.stop()
    assert world.done[1] == "flush"
    assert said(world) == ["join s1", "leave s1"]


def test_it_does_not_leave_while_something_may_still_arrive(world: World) -> None:
    world.undelivered = ["timed out"]
    world.core.stop()
    assert said(world) == ["join s1"]


def test_a_checkpoint_is_told_between_two_records_only() -> None:
    """All outputs of one record carry one number."""
    told: list[int] = []
    world = World(is_form_b=True, hooks=Hooks(on_checkpoint=lambda number, _: told.append(number)))
    world.core.start()
    world.core.assigned([IN])
    world.core.received(world.record(0))
    world.open(5, Form.ACKS)
    world.now = 350
    world.core.beat()
    assert world.stamp() == 0
    assert told == []
    world.core.tick()
    assert told == [5]
