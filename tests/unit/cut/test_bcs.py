"""Rules of checkpoints of log processors, one by one. What they come to together is played in tests/simulation."""

from __future__ import annotations

import pytest

from offsite_participant.bcs import (
    Answer,
    Create,
    Created,
    Ignored,
    Progress,
    Upload,
    on_create,
    on_message,
    on_replayed,
)
from offsite_participant.bcs_copies import (
    Beginning,
    Copy,
    CopyState,
    beginning,
    deletable,
    disposable,
    never_begun,
    orphaned,
    partition_statuses,
    restorable,
    status_of,
    superseded,
)

AT_FIVE = Progress(checkpoint=5, position=40)


def copy(state: str, *, partition: int = 1, checkpoint: int = 5, term: int = 1, partitions: int = 2) -> Copy:
    return Copy(
        partition=partition,
        checkpoint=checkpoint,
        term=term,
        state=CopyState(state),
        position=40,
        partitions=partitions,
    )


@pytest.mark.parametrize(("carried", "forced"), [(0, ()), (-1, ()), (5, ()), (6, (Create(checkpoint=6),))])
def test_a_message_forces_the_checkpoint_that_its_sender_has(carried: int, forced: tuple[Create, ...]) -> None:
    assert on_message(AT_FIVE, carried) == forced


def test_a_higher_id_is_taken_and_may_pass_some_over() -> None:
    step = on_create(AT_FIVE, Create(checkpoint=8), 41)
    assert step.progress == Progress(checkpoint=8, position=41)
    assert step.appended == Created(checkpoint=8, position=41)
    assert (step.pin_before, step.upload) == (41, Upload(checkpoint=8, position=41))
    assert step.answer.is_taken


@pytest.mark.parametrize("late", [5, 4])
def test_an_id_that_is_not_higher_changes_nothing(late: int) -> None:
    step = on_create(AT_FIVE, Create(checkpoint=late), 41)
    assert (step.progress, step.appended) == (AT_FIVE, Ignored(checkpoint=5))
    assert (step.pin_before, step.upload) == (None, None)
    assert step.answer == Answer(asked=late, newest=5)
    assert step.answer.is_passed == (late == 4)


def test_a_mere_marker_is_taken_and_not_uploaded() -> None:
    step = on_create(AT_FIVE, Create(checkpoint=6, is_marker=True), 41)
    assert (step.pin_before, step.upload) == (None, None)
    assert step.progress.checkpoint == 6
    assert step.appended == Created(checkpoint=6, position=41, is_marker=True)


def test_a_replay_ends_where_the_processing_did() -> None:
    created = on_create(AT_FIVE, Create(checkpoint=6), 41).appended
    assert isinstance(created, Created)
    assert on_replayed(AT_FIVE, created) == Progress(checkpoint=6, position=41)


@pytest.mark.parametrize("created", [Created(checkpoint=5, position=41), Created(checkpoint=6, position=40)])
def test_a_replay_that_cannot_be_stops_the_partition(created: Created) -> None:
    with pytest.raises(ValueError, match="cannot follow"):
        on_replayed(AT_FIVE, created)


@pytest.mark.parametrize(("checkpoint", "position"), [(0, 41), (-3, 41), (6, 40), (6, 3)])
def test_a_request_that_cannot_be_stops_the_partition(checkpoint: int, position: int) -> None:
    with pytest.raises(ValueError, match=r"not a checkpoint id|cannot follow"):
        on_create(AT_FIVE, Create(checkpoint=checkpoint), position)


@pytest.mark.parametrize(
    ("there", "decided"),
    [
        ((), Beginning.COPY),
        ((copy("inProgress"),), Beginning.COPY),
        ((copy("abandoned"),), Beginning.COPY),
        ((copy("inProgress", term=3),), Beginning.COPY),
        ((copy("abandoned", term=3),), Beginning.SKIP),
        ((copy("completed"),), Beginning.SKIP),
        ((copy("failed"),), Beginning.REFUSE),
        ((copy("failed"), copy("completed", term=2)), Beginning.REFUSE),
        ((copy("inProgress", term=4),), Beginning.REFUSE),
        ((copy("deleted", partition=2),), Beginning.REFUSE),
        ((copy("failed", partition=2), copy("failed", checkpoint=4)), Beginning.COPY),
    ],
)
def test_who_may_begin_a_copy(there: tuple[Copy, ...], decided: Beginning) -> None:
    assert beginning(there, partition=1, checkpoint=5, term=3) is decided


def test_a_new_leader_settles_all_that_earlier_ones_left() -> None:
    left = [copy("inProgress", checkpoint=each) for each in (3, 4, 5)]
    others = [
        copy("inProgress", term=3),
        copy("inProgress", partition=2),
        copy("inProgress", checkpoint=6),
        copy("completed", checkpoint=2),
    ]
    assert list(orphaned([*left, *others], partition=1, newest=5, term=3)) == left
    assert list(superseded([*left, *others], partition=1, checkpoint=5, term=3)) == left[2:]
    replayed = [Created(checkpoint=each, position=each) for each in (5, 8)]
    replayed.append(Created(checkpoint=9, position=9, is_marker=True))
    assert [each.checkpoint for each in never_begun(left, partition=1, replayed=replayed)] == [8]


@pytest.mark.parametrize(
    ("there", "status"),
    [
        ((), "doesNotExist"),
        ((copy("completed"),), "incomplete"),
        ((copy("completed"), copy("abandoned", partition=2)), "incomplete"),
        ((copy("completed"), copy("inProgress", partition=2)), "ongoing"),
        ((copy("completed"), copy("completed", partition=2)), "completed"),
        ((copy("inProgress"), copy("completed", term=2), copy("completed", partition=2)), "completed"),
        ((copy("completed"), copy("failed", partition=2)), "failed"),
        ((copy("inProgress"), copy("failed", partition=2)), "failed"),
        ((copy("failed"),), "failed"),
        ((copy("completed"), copy("deleted", partition=2)), "deleted"),
        ((copy("completed"), copy("completed", partition=2, partitions=3)), "incomplete"),
        ((copy("completed"), copy("completed", partition=2), copy("completed", partition=3)), "incomplete"),
    ],
)
def test_the_status_over_all_partitions(there: tuple[Copy, ...], status: str) -> None:
    assert status_of(there, checkpoint=5, partitions=2) == status


def test_a_restore_takes_a_completed_copy_of_each_partition_and_their_number_is_the_same() -> None:
    there = [copy("abandoned"), copy("completed", term=2), copy("completed", partition=2)]
    assert restorable(there, checkpoint=5, partitions=2) == {1: there[1], 2: there[2]}
    with pytest.raises(ValueError, match="is incomplete"):
        restorable(there, checkpoint=5, partitions=3)


def test_the_status_of_each_partition_alone_names_the_copy_that_says_so() -> None:
    there = [
        copy("abandoned"),
        copy("completed", term=2, partitions=5),
        copy("failed", partition=2, partitions=5),
        copy("inProgress", partition=3, partitions=5),
        copy("abandoned", partition=4, partitions=5),
        copy("completed", partition=5, checkpoint=4, partitions=5),
    ]
    statuses = partition_statuses(there, checkpoint=5, partitions=5)
    assert [partition.status for partition in statuses] == [
        "completed",
        "failed",
        "ongoing",
        "incomplete",
        "doesNotExist",
    ]
    assert [partition.copy for partition in statuses] == [*there[1:5], None]
    (of_other_size, *_) = partition_statuses([copy("completed", partitions=3)], checkpoint=5, partitions=2)
    assert of_other_size.status == "incomplete"


def test_a_deletion_marks_every_copy_whatever_its_state() -> None:
    states = ("inProgress", "completed", "failed", "abandoned")
    there = [copy(state, term=term) for term, state in enumerate(states)]
    others = [copy("completed", checkpoint=4), copy("deleted", partition=2)]
    assert list(deletable([*there, *others], checkpoint=5)) == there


def test_one_mark_is_enough_and_nobody_begins_anew() -> None:
    there = [copy("deleted"), copy("completed", partition=2)]
    assert status_of(there, checkpoint=5, partitions=2) == "deleted"
    assert beginning(there, partition=2, checkpoint=5, term=9) is Beginning.REFUSE
    with pytest.raises(ValueError, match="is deleted"):
        restorable(there, checkpoint=5, partitions=2)


def test_files_go_of_what_has_ended_badly_and_of_nothing_else() -> None:
    there = [copy(state.value, term=term) for term, state in enumerate(CopyState)]
    assert {leftover.state.value for leftover in disposable(there)} == {"failed", "abandoned", "deleted"}
