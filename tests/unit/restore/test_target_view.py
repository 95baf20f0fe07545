"""What a live partition shows of a range: batches but for ignored ranges, and every hole by name."""

from __future__ import annotations

from collections.abc import Iterator

from offsite.log.range import Chunk, Hole, LogRange
from offsite.restore.compare.target import TargetView
from tests.batches import chunk_of, make_control_batch, make_log
from tests.tables import transactional


class ProvenGap:
    """What a reader may tell beside chunks and holes."""


def part(start: int, end: int) -> LogRange:
    return LogRange(topic="orders", partition=0, start=start, end=end)


def hole(start: int, end: int, reason: str = "retention") -> Hole:
    return Hole(topic="orders", partition=0, start=start, end=end, reason=reason)


def view(*items: object, end: int = 100, whole_log: bool = False, ignored: tuple[LogRange, ...] = ()) -> TargetView:
    def read(log_range: LogRange) -> Iterator[object]:
        assert log_range == part(0, end)
        return iter(items)

    return TargetView(read, part(0, end), read_committed=False, whole_log=whole_log, ignored=ignored)


def offsets(target: TargetView) -> list[int]:
    return [record.offset for batch in target.batches() for record in batch.records()]


def test_what_the_reader_does_not_give_is_named() -> None:
    target = view(hole(0, 20), chunk_of(make_log(20, 40)), ProvenGap(), hole(40, 100, "truncation"))
    assert offsets(target) == [*range(20, 40)]
    assert target.holes == [hole(0, 20), hole(40, 100, "truncation")]


def test_ignored_ranges_are_cut_out_record_by_record() -> None:
    ignored = (part(13, 17), part(25, 90))
    target = view(chunk_of(make_log(0, 100)), ignored=ignored)
    assert offsets(target) == [*range(13), *range(17, 25), *range(90, 100)]


def test_holes_inside_ignored_ranges_are_of_no_interest() -> None:
    target = view(chunk_of(make_log(0, 20)), hole(30, 40), hole(85, 95), ignored=(part(20, 90),))
    assert (offsets(target), target.holes) == ([*range(20)], [hole(85, 95)])


def test_markers_are_shown_of_the_whole_log_only() -> None:
    log = make_log(0, 10) + make_control_batch(10, producer_id=7, committed=True)
    assert offsets(view(chunk_of(log))) == [*range(10)]
    assert offsets(view(chunk_of(log), whole_log=True)) == [*range(11)]


def test_the_rest_of_the_range_is_read_once_for_markers_from_the_first_transactional_batch_on() -> None:
    batches = [
        make_log(0, 20),
        transactional(20, 2, producer_id=1, sequence=0),
        transactional(22, 2, producer_id=2, sequence=0),
        make_control_batch(24, producer_id=2, committed=False),
        transactional(25, 2, producer_id=2, sequence=2),
        make_control_batch(27, producer_id=1, committed=True),
        make_control_batch(28, producer_id=2, committed=True),
    ]
    reads: list[LogRange] = []

    def read(log_range: LogRange) -> Iterator[Chunk]:
        reads.append(log_range)
        for chunk in map(chunk_of, batches):
            if log_range.start <= chunk.batches[0].base_offset < log_range.end:
                yield chunk

    assert offsets(TargetView(read, part(0, 28), read_committed=True)) == [*range(22)]
    assert reads == [part(0, 28), part(20, 28)]
    assert offsets(TargetView(read, part(0, 29), read_committed=True)) == [*range(22), 25, 26]
    reads.clear()
    assert offsets(TargetView(read, part(0, 20), read_committed=True)) == [*range(20)]
    assert reads == [part(0, 20)]
