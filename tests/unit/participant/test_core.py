"""The rules of a participant. Each test fails if its rule is taken away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from offsite_participant.core import Hooks
from offsite_participant.errors import ControlUnavailable, NotCommitted, NotDelivered, UnknownVersion, Unreadable
from offsite_participant.number import (
    MAX_NUMBER,
    CommitNote,
    Form,
    Stamp,
    TopicPartition,
    marker_headers,
    stamped,
)
from offsite_participant.ports import Committed
from offsite_participant.positions import MAX_OUTPUTS, SentOutputs
from tests.unit.participant.participant_world import ALSO_IN, CONTROL, IN, OUT, World


@pytest.fixture
def world() -> World:
    world = World()
    world.core.start()
    world.core.assigned([IN])
    return world


def test_what_is_produced_carries_the_number(world: World) -> None:
    assert world.stamp() == 0
    world.core.received(world.record(0, number=3))
    assert world.stamp([("offsite-checkpoint", b"1")]) == 3


def test_a_higher_stamp_forces_the_number_and_a_lower_one_does_not_take_it_back(world: World) -> None:
    world.core.received(world.record(0, number=3))
    world.core.received(world.record(1, number=2))
    assert world.core.number == 3


def test_a_marker_forces_the_number_and_is_not_for_the_application(world: World) -> None:
    assert world.core.received(world.record(0))
    assert not world.core.received(world.marker(1, 4))
    assert world.core.number == 4
    world.core.commit()
    assert world.commits[IN].offset == 2


def test_the_application_is_told_before_the_record_is_handled() -> None:
    told: list[tuple[int, Mapping[TopicPartition, int]]] = []
    world = World(hooks=Hooks(on_checkpoint=lambda number, positions: told.append((number, positions))))
    world.commits[ALSO_IN] = Committed(offset=40)
    world.core.assigned([IN, ALSO_IN])
    world.core.received(world.record(7))
    assert world.core.received(world.record(8, number=3))
    assert told == [(3, {IN: 8, ALSO_IN: 40})]


def test_a_checkpoint_that_the_application_cannot_take_is_tried_again_for_the_same_record() -> None:
    def refuse(_number: int, _positions: object) -> None:
        if world.now == 0:
            raise OSError("disk full")

    world = World(hooks=Hooks(on_checkpoint=refuse))
    world.core.assigned([IN])
    world.commits[IN] = Committed(offset=8, metadata=CommitNote(number=6).format())
    world.open(6)
    with pytest.raises(OSError, match="disk full"):
        world.core.received(world.record(8, number=3))
    assert world.stamp() == 0
    world.core.commit()
    assert world.commits[IN].metadata == CommitNote(number=6).format()
    world.now = 1
    assert world.core.received(world.record(8, number=3))
    assert world.core.number == 6


def test_a_start_takes_the_newest_opened_number() -> None:
    world = World()
    world.open(5)
    world.open(4)
    world.core.start()
    assert world.core.number == 5


def test_an_assignment_takes_the_number_of_its_commits() -> None:
    world = World(commits={IN: Committed(offset=8, metadata=CommitNote(number=6).format())})
    world.core.start()
    world.core.assigned([IN])
    world.open(6)
    world.core.received(world.record(8))
    assert world.core.number == 6


def test_a_number_that_was_never_opened_says_nothing(world: World) -> None:
    """As on records of another cluster, that were restored with their commits, or of a stranger."""
    foreign = MAX_NUMBER
    world.commits[ALSO_IN] = Committed(offset=8, metadata=CommitNote(number=foreign).format())
    world.core.assigned([ALSO_IN])
    world.core.received(world.given(8, stamped([], Stamp(foreign, Form.MARKERS, IN.topic, CONTROL)), where=ALSO_IN))
    assert world.core.number == 0
    world.core.received(world.record(0, number=3))
    assert world.core.number == 3


def test_a_number_that_was_opened_just_now_is_looked_up(world: World) -> None:
    world.core.received(world.record(0))
    world.core.received(world.record(1, number=3))
    assert world.core.number == 3


def test_a_stamp_that_was_passed_on_says_nothing(world: World) -> None:
    """By an application that takes no part, from a topic that it reads."""
    world.core.received(world.record(0))
    world.open(9)
    world.core.received(world.given(1, stamped([], Stamp(9, Form.MARKERS, "mails", CONTROL))))
    assert world.core.number == 0


def test_data_with_the_header_of_a_marker_is_for_the_application(world: World) -> None:
    world.open(4)
    assert world.core.received(world.given(0, marker_headers(4, IN.topic, CONTROL)))
    assert world.core.number == 4


def test_the_first_record_of_an_assignment_comes_after_all_that_was_opened(world: World) -> None:
    """Others read the partition before, and may have passed the marker."""
    world.core.received(world.record(0))
    world.open(5)
    world.core.received(world.record(1))
    assert world.core.number == 0
    world.core.assigned([ALSO_IN])
    world.core.received(world.record(0, where=ALSO_IN))
    assert world.core.number == 5


def test_a_partition_that_comes_back_is_a_new_assignment(world: World) -> None:
    world.core.received(world.record(0))
    world.core.revoked([IN])
    world.commits[IN] = Committed(offset=1)
    world.core.assigned([IN])
    world.open(5)
    world.core.received(world.record(1))
    assert world.core.number == 5


def test_a_first_record_where_the_commit_says_is_the_first_all_the_same() -> None:
    world = World(commits={IN: Committed(offset=8)})
    world.core.start()
    world.core.assigned([IN])
    world.open(5)
    world.core.received(world.record(8))
    assert world.core.number == 5


def test_a_gap_may_have_held_a_number(world: World) -> None:
    """Compaction, retention and a reset take stamps and markers away."""
    world.core.received(world.record(0))
    world.open(5)
    world.core.received(world.record(1))
    assert world.core.number == 0
    world.core.received(world.record(3))
    assert world.core.number == 5


def test_records_in_a_row_ask_nobody(world: World) -> None:
    world.core.assigned([IN, ALSO_IN])
    world.core.received(world.record(0))
    before = world.control_reads, world.questions
    for offset in range(1, 10):
        world.core.received(world.record(offset))
        world.core.tick()
    assert (world.control_reads, world.questions) == before


def test_a_record_is_not_handled_while_the_control_topic_is_away(world: World) -> None:
    world.is_control_away = True
    with pytest.raises(ControlUnavailable):
        world.core.received(world.record(0))
    world.open(5)
    world.is_control_away = False
    world.core.received(world.record(0))
    assert world.core.number == 5


@pytest.mark.parametrize("value", [b"?", None])
def test_a_control_topic_that_cannot_be_read_stops_for_good(world: World, value: bytes | None) -> None:
    world.control.append(value)
    for _ in range(2):
        with pytest.raises(Unreadable):
            world.core.received(world.record(0))


def test_a_commit_of_a_later_offsite_stops_for_good(world: World) -> None:
    world.commits[IN] = Committed(offset=0, metadata="offsite:2;cp=1")
    for _ in range(2):
        with pytest.raises(UnknownVersion):
            world.core.received(world.record(0))


def test_a_commit_comes_after_the_flush_and_names_its_outputs(world: World) -> None:
    world.core.received(world.record(0, number=3))
    world.on_the_way = [(OUT, 9), (OUT, 8)]
    world.core.commit()
    assert world.done == ["flush", "commit"]
    assert world.commits[IN] == Committed(offset=1, metadata="offsite:1;cp=3;out=paid/0@9;")


def test_the_next_commit_names_the_next_outputs_only(world: World) -> None:
    world.core.received(world.record(0))
    world.on_the_way = [(OUT, 9)]
    world.core.commit()
    world.core.received(world.record(1))
    world.core.commit()
    assert world.commits[IN] == Committed(offset=2, metadata="offsite:1;cp=0;out=;")


def test_outputs_of_a_commit_that_was_refused_go_with_the_next_one(world: World) -> None:
    world.core.received(world.record(0))
    world.on_the_way = [(OUT, 9)]
    world.are_commits_refused = True
    with pytest.raises(NotCommitted):
        world.core.commit()
    world.are_commits_refused = False
    world.core.commit()
    assert world.commits[IN].metadata.endswith("out=paid/0@9;")


def test_nothing_new_is_no_commit(world: World) -> None:
    world.core.commit()
    assert world.commits == {}


def test_more_outputs_than_can_be_named_are_any(world: World) -> None:
    world.core.received(world.record(0))
    world.on_the_way = [(TopicPartition(f"topic-{each}", 0), 1) for each in range(1_500)]
    world.core.commit()
    assert world.commits[IN].metadata == "offsite:1;cp=0;out=*;"


def test_outputs_without_end_are_not_kept() -> None:
    writing = SentOutputs()
    for each in range(3 * MAX_OUTPUTS):
        writing.delivered(TopicPartition(f"topic-{each}", 0), 1)
    assert writing.settle() is None
    assert writing.outputs() is None
    writing.committed()
    assert writing.outputs() == {}


def test_an_output_that_was_given_up_takes_back_what_was_handled(world: World) -> None:
    for offset in range(3):
        world.core.received(world.record(offset))
        if offset == 0:
            world.core.commit()
    world.undelivered = ["timed out"]
    for _ in range(2):
        with pytest.raises(NotDelivered):
            world.core.commit()
    with pytest.raises(NotDelivered):
        world.stamp()
    assert world.commits[IN].offset == 1
    world.core.tick()
    assert world.sought == {IN: 1}
    world.core.commit()
    assert world.commits[IN].offset == 1
    assert world.core.received(world.record(1))
    world.core.commit()
    assert world.commits[IN].offset == 2


def test_a_way_back_that_failed_is_gone_again(world: World) -> None:
    world.core.received(world.record(7))
    world.core.given_up("timed out")
    world.is_seek_refused = True
    for _ in range(2):
        with pytest.raises(OSError, match="no such"):
            world.core.tick()
    world.is_seek_refused = False
    world.core.tick()
    assert world.sought == {IN: 7}


def test_without_a_commit_it_goes_back_to_the_first_record_it_saw(world: World) -> None:
    world.core.received(world.record(7))
    world.core.given_up("timed out")
    world.core.tick()
    assert world.sought == {IN: 7}


def test_the_application_is_told_what_it_will_handle_again() -> None:
    lost: list[tuple[TopicPartition, ...]] = []

    def on_lost(partitions: Iterable[TopicPartition]) -> None:
        lost.append(tuple(partitions))

    world = World(hooks=Hooks(on_lost=on_lost))
    world.core.assigned([IN, ALSO_IN])
    world.core.received(world.record(7))
    world.core.given_up("timed out")
    world.core.tick()
    world.core.revoked([ALSO_IN])
    assert lost == [(IN,), (ALSO_IN,)]


def test_what_was_handled_of_a_partition_that_is_gone_is_not_committed(world: World) -> None:
    world.core.received(world.record(0))
    world.core.revoked([IN])
    world.core.commit()
    assert world.commits == {}


def test_a_restart_does_not_forget_the_number(world: World) -> None:
    world.open(5)
    world.core.received(world.record(0, number=5))
    world.core.commit()
    world.core = world.new_core()
    world.core.start()
    assert world.stamp() == 5


def test_form_a_is_not_seen_in_the_control_topic(world: World) -> None:
    world.core.beat()
    world.core.tick()
    world.core.stop()
    assert world.control == []


def test_a_control_topic_that_was_made_anew_and_is_as_long_as_before_is_read_from_its_start(world: World) -> None:
    world.core.received(world.record(0, number=3))
    world.control.clear()
    world.core.received(world.marker(1, 4))
    assert world.core.number == 4
