from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.log.markers import Marker, Markers
from offsite.log.transactions import OpenTransaction
from offsite.points.point_in_time import PartitionChain
from offsite.repository.segments.body import content_hash
from offsite.repository.segments.index import Frame, SegmentIndex, encode_index
from offsite.repository.segments.segment import Segment
from offsite.restore.offsets import (
    BY_COORDINATOR,
    WRITE_BYTES_PER_S,
    SlowTransaction,
    slow_transaction,
)
from offsite.stores.open_store import open_store
from offsite.stores.store import Store
from tests.unit.restore.test_restore_plan import partition, segment

SOURCE = partition("t", 0)
MAX_S = 900.0
A, B = 7, 8
"""Producers."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = open_store(str(tmp_path))
    made.prepare()
    return made


def ended(offset: int, producer_id: int, first_offset: int) -> Marker:
    return Marker(offset, producer_id, 0, True, first_offset)


def begun(producer_id: int, first: int, last: int) -> OpenTransaction:
    return OpenTransaction(producer_id=producer_id, first_offset=first, last_offset=last)


def stored(
    store: Store,
    start: int,
    end: int,
    *,
    takes_s: float,
    markers: Sequence[Marker] = (),
    opened: Sequence[OpenTransaction] | None = (),
) -> Segment:
    """A segment that takes so long to write."""
    plain = segment(SOURCE, start, end)
    frames = (Frame(first_offset=start, raw_position=0, stored_position=0, timestamp_max_ms=-1, raw_crc=0),)
    opened = None if opened is None else tuple(opened)
    data = encode_index(SegmentIndex(segment_key=plain.key, frames=frames, markers=Markers(markers), open=opened))
    store.put_if_absent(f"{plain.key}.idx", data)
    return replace(
        plain,
        raw_bytes=round(takes_s * WRITE_BYTES_PER_S),
        has_transactions=True,
        index_key=f"{plain.key}.idx",
        index_hash=content_hash(data),
    )


def slowest(
    store: Store, *segments: Segment, end: int | None = None, hole_starts: tuple[int, ...] = ()
) -> SlowTransaction | None:
    end = segments[-1].end if end is None else end
    chain = PartitionChain(source=SOURCE, segments=segments, end=end, hole_starts=hole_starts)
    return slow_transaction(chain, store=store, open_max_s=MAX_S, way=BY_COORDINATOR)


def test_sidecars_are_not_read_where_everything_is_written_in_time(store: Store) -> None:
    whole = stored(store, 0, 100, takes_s=899, markers=[ended(99, A, 0)])
    store.delete(str(whole.index_key))
    assert slowest(store, whole) is None


def test_short_transactions_of_a_large_partition_are_no_problem(store: Store) -> None:
    first = stored(store, 0, 100, takes_s=1000, markers=[ended(50, A, 0), ended(99, A, 51)])
    second = stored(store, 100, 200, takes_s=1000, markers=[ended(150, B, 100), ended(199, A, 151)])
    assert slowest(store, first, second) is None


def test_a_transaction_inside_a_segment_is_seen(store: Store) -> None:
    found = slowest(store, stored(store, 0, 100, takes_s=1000, markers=[ended(20, B, 10), ended(98, A, 0)]))
    assert found is not None
    assert (found.producer_id, found.start, found.end) == (A, 0, 99)
    assert found.open_s == pytest.approx(990)


def test_a_transaction_over_several_segments_is_seen_from_its_first_batch(store: Store) -> None:
    log = [
        stored(store, 0, 100, takes_s=400, markers=[ended(10, A, 0)], opened=[begun(A, 50, 60)]),
        stored(store, 100, 200, takes_s=400, markers=[ended(120, B, 110)], opened=[begun(A, 130, 140)]),
        stored(store, 200, 300, takes_s=400),
        stored(store, 300, 400, takes_s=400, markers=[ended(350, A, -1), ended(390, A, 360)]),
    ]
    found = slowest(store, *log)
    assert found is not None
    assert (found.producer_id, found.start, found.end) == (A, 50, 351)
    assert found.open_s == pytest.approx(200 + 800 + 204)
    assert slowest(store, *log[:3], end=250) is None  # undecided: aborted after its last batch, at 140


def test_a_transaction_that_is_undecided_at_the_end_counts_to_its_last_batch(store: Store) -> None:
    log = [
        stored(store, 0, 100, takes_s=600, opened=[begun(A, 0, 0), begun(B, 0, 5)]),
        stored(store, 100, 200, takes_s=600, opened=[begun(A, 110, 190)]),
    ]
    found = slowest(store, *log)
    assert found is not None
    assert (found.producer_id, found.start, found.end) == (A, 0, 191)


def test_one_that_is_open_where_a_hole_begins_counts_to_its_last_batch_before_it(store: Store) -> None:
    log = [
        stored(store, 0, 100, takes_s=600, opened=[begun(A, 0, 90)]),
        stored(store, 150, 200, takes_s=600, markers=[ended(199, A, -1)]),
    ]
    assert slowest(store, *log) is not None
    assert slowest(store, *log, hole_starts=(100,)) is None


def test_a_transaction_whose_marker_lies_behind_the_restore_point_counts_to_there(store: Store) -> None:
    log = [
        stored(store, 0, 100, takes_s=600, opened=[begun(A, 0, 0)]),
        stored(store, 100, 200, takes_s=600, markers=[ended(199, A, 120)]),
    ]
    assert slowest(store, *log, end=140) is None
    found = slowest(store, *log, end=190)
    assert found is not None
    assert (found.start, found.end) == (0, 190)


def test_many_transactions_in_between_take_their_time(store: Store) -> None:
    many = replace(stored(store, 0, 200_000, takes_s=1, markers=[ended(199_998, A, 0)]), records=1)
    many = replace(many, control_batches=round(MAX_S / BY_COORDINATOR.outcome_s) + 200, records=200_000)
    found = slowest(store, many)
    assert found is not None
    assert found.open_s > MAX_S


def test_an_older_sidecar_shows_what_is_behind_the_border(store: Store) -> None:
    log = [
        stored(store, 0, 100, takes_s=600, opened=None),
        stored(store, 100, 200, takes_s=1000, markers=[ended(199, A, -1)], opened=None),
    ]
    found = slowest(store, *log)
    assert found is not None
    assert (found.start, found.end) == (100, 200)
