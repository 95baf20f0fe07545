from __future__ import annotations

from collections.abc import Sequence

from offsite.log.batch import scan
from offsite.log.codec import ZSTD
from offsite.log.records.batch_records import decode, encode
from offsite.log.records.record import CREATE_TIME, Record
from offsite.points.source_view import RecordBounds
from offsite.restore.write.translate import DenseBatch, dense_batch


def record(offset: int) -> Record:
    return Record(offset, 1000 - offset, CREATE_TIME, b"k%d" % offset, None, (("h", b"1"), ("h", None)))


def image(offsets: Sequence[int], *, codec: int = 0, start: int = 0, end: int = 10**9) -> DenseBatch | None:
    data = memoryview(encode([record(o) for o in offsets], codec=codec))
    (header,) = scan(data)
    return dense_batch(data, header, RecordBounds(start, end))


def content(batch: bytearray | memoryview) -> list[tuple[object, ...]]:
    (header,) = scan(batch)
    return [(r.offset, *r[1:]) for r in decode(memoryview(batch), header)]


def test_a_batch_without_gaps_goes_out_as_it_is() -> None:
    data = memoryview(encode([record(o) for o in (5, 6, 7)], codec=ZSTD))
    (header,) = scan(data)
    dense = dense_batch(data, header, RecordBounds(0, 100))
    assert dense is not None
    assert (bytes(dense.batch), dense.records, list(dense.runs)) == (bytes(data), 3, [(5, 3)])


def test_gaps_are_closed_and_every_source_offset_is_accounted_for() -> None:
    dense = image([5, 6, 9, 12, 13])
    assert dense is not None
    assert list(dense.runs) == [(5, 2), (9, 1), (12, 2)]
    assert content(dense.batch) == [(n, *record(o)[1:]) for n, o in enumerate([5, 6, 9, 12, 13])]


def test_records_outside_the_range_are_left_out() -> None:
    dense = image([5, 6, 7, 8], start=6, end=8)
    assert dense is not None
    assert list(dense.runs) == [(6, 2)]


def test_a_batch_wholly_outside_the_range_gives_nothing() -> None:
    assert image([5, 6], start=7) is None
    assert image([5, 6], end=5) is None


def test_a_batch_whose_remaining_records_lie_outside_the_range_gives_nothing() -> None:
    assert image([5, 9], start=6, end=9) is None
