"""A map is proven with the batches of its source: one of another attempt is found out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offsite.log.batch import scan
from offsite.log.offset_map import OffsetMap, OffsetMapBuilder
from offsite.points.source_view import RecordBounds, VisibleBatch
from offsite.restore.compare.target import MapProof
from tests.batches import RECORDS_PER_BATCH, make_batch

STARTS = (100, 110, 130)
"""Source offsets 120 to 129 hold no record."""
END = 140
ALL = RecordBounds(0, 1 << 62)


def source(record_bounds: RecordBounds = ALL) -> Iterator[VisibleBatch]:
    for start in STARTS:
        data = memoryview(bytearray(make_batch(start)))
        yield VisibleBatch(data, scan(data)[0], record_bounds)


def dense_map(target_start: int, *, starts: tuple[int, ...] = STARTS, target_end: int | None = None) -> OffsetMap:
    builder = OffsetMapBuilder(source_start=starts[0], target_start=target_start)
    for number, start in enumerate(starts):
        builder.add(start, target_start + number * RECORDS_PER_BATCH, RECORDS_PER_BATCH)
    return builder.build(source_end=END, target_end=target_end)


def proven(offset_map: OffsetMap | None, *, keeps_offsets: bool = False) -> tuple[int, int] | None:
    """Where the first difference lies."""
    proof = MapProof(offset_map, target_start=7, keeps_offsets=keeps_offsets)
    assert sum(1 for _ in proof.check_batches(source())) == len(STARTS)
    return None if proof.difference is None else (proof.difference.source_offset, proof.difference.target_offset)


def test_the_map_of_what_was_written_is_proven() -> None:
    assert proven(dense_map(7)) is None


@pytest.mark.parametrize(
    ("offset_map", "where"),
    [
        pytest.param(dense_map(0), (100, 7), id="of a target that began elsewhere"),
        pytest.param(dense_map(7, starts=(100, 120, 130)), (110, 17), id="of another source"),
        pytest.param(dense_map(7, target_end=99), (140, 37), id="that ends elsewhere"),
        pytest.param(None, (-1, -1), id="none"),
    ],
)
def test_another_one_is_found_out(offset_map: OffsetMap | None, where: tuple[int, int]) -> None:
    assert proven(offset_map) == where


def test_where_offsets_are_kept_each_must_stay_what_it_is() -> None:
    builder = OffsetMapBuilder(source_start=100, target_start=100)
    builder.add(100, 100, 40)
    assert proven(builder.build(), keeps_offsets=True) is None
    assert proven(dense_map(100), keeps_offsets=True) == (130, 130)


def test_records_that_a_restore_point_leaves_out_are_not_counted() -> None:
    builder = OffsetMapBuilder(source_start=105, target_start=7)
    builder.add(105, 7, 5)
    builder.add(110, 12, 2)
    proof = MapProof(builder.build(source_end=112), target_start=7, keeps_offsets=False)
    list(proof.check_batches(source(RecordBounds(105, 112))))
    assert proof.difference is None
