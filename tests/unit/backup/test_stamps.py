"""Stamps in what is copied: folded stretch by stretch they say what one look at all records would."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from offsite.backup.copy_plan import CopyTask, StampWindow
from offsite.backup.stamps import NONE_BEHIND, ObservedStamps, StampFold, join_stamps, stamp_fold
from offsite.log.batch import scan
from offsite.log.range import LogRange
from offsite.log.records.batch_records import encode
from offsite.log.records.record import CREATE_TIME, Record, RecordHeaders
from offsite_participant.number import MARKER_KEY, Form, Stamp, marker_headers, stamped

CHECKPOINT = 7


def of_number(
    number: int | None, *, form: Form = Form.MARKERS, topic: str = "orders", control: str = "control"
) -> RecordHeaders:
    return () if number is None else tuple(stamped((), Stamp(number, form, topic, control)))


def window(start: int, *, leader_epoch: int = -1) -> StampWindow:
    return StampWindow(
        checkpoint=CHECKPOINT, form=Form.MARKERS, control_topic="control", start=start, leader_epoch=leader_epoch
    )


def record(offset: int, headers: RecordHeaders = ()) -> Record:
    return Record(offset, 1_000, CREATE_TIME, None, b"v", headers)


def task(start: int, end: int, *, window_start: int = 0) -> CopyTask:
    span = LogRange(topic="orders", partition=0, start=start, end=end)
    return CopyTask(topic_id="id", range=span, estimated_bytes=1, stamps=window(window_start))


def seen(records: list[Record], *, start: int = 0, size: int = 3) -> ObservedStamps:
    fold = StampFold("orders", window(start))
    for place in range(0, len(records), size):
        data = memoryview(encode(records[place : place + size]))
        fold.observe(data, scan(data))
    return fold.observed


@pytest.mark.parametrize("seed", range(200))
def test_stretches_say_what_all_records_say(seed: int) -> None:
    random = Random(seed)
    numbers = [random.choices((3, 6, 7, 8, None), (9, 9, 1, 1, random.random()))[0] for _ in range(30)]
    start = random.randrange(30)
    records = [record(offset, of_number(number)) for offset, number in enumerate(numbers)]
    edges = [0, *sorted(random.sample(range(1, 30), 3)), 30]
    tasks = [task(low, high, window_start=start) for low, high in pairwise(edges)]
    parts = [
        seen(records[low:high], start=start) if stamp_fold(each) else None
        for each, (low, high) in zip(tasks, pairwise(edges), strict=True)
    ]
    behind = [offset for offset, number in enumerate(numbers) if offset >= start and (number or 0) >= CHECKPOINT]
    found = join_stamps(tasks, parts)[tasks[0].partition_id]
    assert found.first == (behind[0] if behind else NONE_BEHIND)
    assert found.number == max((numbers[each] or 0 for each in behind), default=0)
    assert found.has_unstamped == (None in numbers[start:])
    assert found.has_data


def test_a_marker_is_behind_and_is_no_data() -> None:
    headers = tuple(marker_headers(CHECKPOINT, "orders", "control"))
    marker = record(4, headers)._replace(key=MARKER_KEY, value=None)
    assert seen([marker]) == ObservedStamps(first=4, number=CHECKPOINT)
    assert seen([record(4, headers)]) == ObservedStamps(first=4, number=CHECKPOINT, has_data=True)


def test_who_hears_of_other_checkpoints_is_not_stamped() -> None:
    """However high his numbers are: this one was opened in another control topic."""
    assert seen([record(4, of_number(CHECKPOINT, control="another"))]) == ObservedStamps(
        has_data=True, has_unstamped=True
    )
    marker = record(4, tuple(marker_headers(CHECKPOINT, "orders", "another")))._replace(key=MARKER_KEY, value=None)
    assert seen([marker]) == ObservedStamps()


def test_a_batch_that_reaches_into_the_window_counts_inside_alone() -> None:
    records = [record(0), record(1, of_number(3)), record(2, of_number(3))]
    assert seen(records, start=1) == ObservedStamps(has_data=True)


def test_a_batch_that_reaches_past_its_range_is_looked_at_whole() -> None:
    """It belongs to the range of its base offset: whoever reads the next range does not see it."""
    found = stamp_fold(task(0, 1))
    assert found is not None
    data = memoryview(encode([record(0, of_number(3)), record(1, of_number(9))]))
    found.observe(data, scan(data))
    assert found.observed.first == 1


@pytest.mark.parametrize(
    "headers",
    [
        (("offsite-checkpoint", b"soon"),),
        of_number(9, topic="mails"),  # passed on by an application that takes no part
    ],
)
def test_what_is_no_stamp_of_this_topic_is_none(headers: RecordHeaders) -> None:
    assert seen([record(0, headers)]) == ObservedStamps(has_data=True, has_unstamped=True)


def test_who_hears_of_checkpoints_in_another_way_did_not_take_this_one() -> None:
    found = seen([record(0, of_number(3, form=Form.ACKS)), record(1, of_number(7, form=Form.ACKS))])
    assert found == ObservedStamps(first=1, number=7, has_data=True, has_unstamped=True)


def test_what_an_unclean_election_put_below_the_window_is_looked_at() -> None:
    fold = StampFold("orders", window(9, leader_epoch=4))
    for epoch, offset in ((4, 0), (5, 1)):
        data = memoryview(encode([record(offset, of_number(8))], leader_epoch=epoch))
        fold.observe(data, scan(data))
    assert fold.observed.first == 1


def test_nothing_is_looked_at_in_a_topic_that_does_not_take_part() -> None:
    assert stamp_fold(replace(task(0, 9), stamps=None)) is None
