from __future__ import annotations

import pytest

from offsite.kafka.evidence import BatchWindow, batch_window
from offsite.log.batch import HEADER_STRUCT
from offsite.log.range import LogRange
from offsite.model.errors import DamagedBatch


def batches(*spans: tuple[int, int]) -> memoryview:
    """Empty batches that account for the offsets `[first, next)`."""
    heads = (
        HEADER_STRUCT.pack(first, HEADER_STRUCT.size - 12, 0, 2, 0, 0, following - first - 1, 0, 0, -1, -1, -1, 0)
        for first, following in spans
    )
    return memoryview(b"".join(heads))


def window(
    records: memoryview, start: int, end: int, *, position: int | None = None, log_start: int = 0
) -> BatchWindow:
    log_range = LogRange(topic="t", partition=0, start=start, end=end)
    return batch_window(records, log_range, start if position is None else position, log_start=log_start)


def bases(found: BatchWindow) -> list[int]:
    return [] if found.chunk is None else [each.base_offset for each in found.chunk.batches]


def test_all_batches_inside_the_range_are_taken() -> None:
    found = window(batches((0, 10), (10, 20)), 0, 100)
    assert (bases(found), found.next_offset) == ([0, 10], 20)


def test_a_batch_that_begins_before_the_range_belongs_to_the_range_before() -> None:
    found = window(batches((0, 10), (10, 20)), 5, 100)
    assert (bases(found), found.next_offset) == ([10], 20)
    assert found.chunk is not None
    assert found.chunk.batches[0].position == 0, "positions are relative to the chunk"


def test_a_batch_that_begins_in_the_range_is_taken_even_if_it_reaches_past_its_end() -> None:
    found = window(batches((0, 10), (10, 20), (20, 30)), 0, 15)
    assert (bases(found), found.next_offset) == ([0, 10], 15)
    assert found.chunk is not None
    assert len(found.chunk.data) == found.chunk.batches[-1].end_position


def test_a_range_inside_one_batch_of_the_range_before_has_nothing() -> None:
    found = window(batches((0, 100)), 5, 50)
    assert (bases(found), found.next_offset) == ([], 50)


def test_the_batch_the_log_starts_in_belongs_to_the_range_that_holds_the_log_start() -> None:
    found = window(batches((0, 10), (10, 20)), 5, 100, log_start=5)
    assert (bases(found), found.next_offset) == ([0, 10], 20)


def test_batches_that_end_before_the_log_start_are_left_out() -> None:
    found = window(batches((0, 5), (5, 10)), 5, 100, log_start=5)
    assert bases(found) == [5]


def test_after_a_hole_reading_goes_on_in_the_middle_of_a_batch() -> None:
    assert bases(window(batches((40, 60), (60, 70)), 0, 100, position=50, log_start=50)) == [40, 60]


def test_a_batch_that_overlaps_what_was_read_is_damage() -> None:
    with pytest.raises(DamagedBatch, match="overlaps"):
        window(batches((40, 60)), 0, 100, position=50)


def test_gaps_are_stepped_over() -> None:
    found = window(batches((3, 7), (50, 60)), 0, 100)
    assert (bases(found), found.next_offset) == ([3, 50], 60)


def test_a_gap_up_to_the_end_of_the_range_ends_it() -> None:
    found = window(batches((200, 210)), 0, 100)
    assert (bases(found), found.next_offset) == ([], 100)


def test_a_torn_batch_alone_brings_nothing() -> None:
    found = window(batches((0, 10))[:-1], 0, 100)
    assert (bases(found), found.next_offset) == ([], 0)
