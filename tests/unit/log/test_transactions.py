"""Markers are found as batches pass, and they alone decide what a read_committed consumer sees."""

from __future__ import annotations

import struct
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.batch import CONTROL_BIT, BatchHeader, scan
from offsite.log.committed_view import CommittedView
from offsite.log.markers import Marker
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.log.transactions import TransactionIndexer, UndecidedTransaction

Step = tuple[int, Literal["data", "commit", "abort", "plain"]]


def log_of(steps: list[Step], *, start: int = 0) -> tuple[bytearray, list[BatchHeader]]:
    """One batch of one record per step: of a transaction's data, a marker, or a producer without transactions."""
    data = bytearray()
    for offset, (producer_id, kind) in enumerate(steps, start):
        key = struct.pack(">hh", 0, 1 if kind == "commit" else 0)
        value = struct.pack(">hi", 0, 3)
        batch = encode(
            [Record(offset, 0, 0, key, value)],
            producer_id=producer_id,
            producer_epoch=2,
            is_transactional=kind != "plain",
        )
        if kind in ("commit", "abort"):
            batch[22] |= CONTROL_BIT
        data += batch
    return data, scan(data)


def indexed(steps: list[Step]) -> TransactionIndexer:
    indexer = TransactionIndexer()
    indexer.feed(*log_of(steps))
    return indexer


def marker(offset: int, producer_id: int, *, committed: bool, first_offset: int = -1) -> Marker:
    return Marker(
        offset=offset,
        producer_id=producer_id,
        producer_epoch=2,
        committed=committed,
        first_offset=first_offset,
    )


def visible_offsets(steps: list[Step], *, end_offset: int) -> list[int]:
    view = CommittedView([indexed(steps).markers], end_offset=end_offset)
    return [header.base_offset for header in log_of(steps)[1] if view.is_visible(header)]


INTERLEAVED: list[Step] = [
    (1, "data"),
    (2, "data"),
    (9, "plain"),
    (1, "data"),
    (2, "abort"),
    (2, "data"),
    (1, "commit"),
    (1, "data"),
    (2, "commit"),
    (1, "abort"),
    (3, "abort"),
    (1, "data"),
]


def test_interleaved_transactions_each_get_their_own_marker() -> None:
    indexer = indexed(INTERLEAVED)
    assert list(indexer.markers) == [
        marker(4, 2, committed=False, first_offset=1),
        marker(6, 1, committed=True, first_offset=0),
        marker(8, 2, committed=True, first_offset=5),
        marker(9, 1, committed=False, first_offset=7),
        marker(10, 3, committed=False, first_offset=-1),
    ]
    assert indexer.undecided == [UndecidedTransaction(producer_id=1, first_offset=11)]


def test_only_committed_and_plain_data_is_visible() -> None:
    assert visible_offsets(INTERLEAVED, end_offset=len(INTERLEAVED)) == [0, 2, 3, 5]


@pytest.mark.parametrize(("end_offset", "visible"), [(6, [2]), (7, [0, 2, 3]), (8, [0, 2, 3]), (9, [0, 2, 3, 5])])
def test_markers_at_or_after_the_end_do_not_count(end_offset: int, visible: list[int]) -> None:
    assert [o for o in visible_offsets(INTERLEAVED, end_offset=end_offset) if o < end_offset] == visible


def test_undecided_transactions_are_reported_with_their_first_offset() -> None:
    headers = log_of(INTERLEAVED)[1]
    view = CommittedView([indexed(INTERLEAVED).markers], end_offset=6)
    for header in reversed(headers[:6]):
        view.is_visible(header)
    assert view.undecided == [
        UndecidedTransaction(producer_id=1, first_offset=0),
        UndecidedTransaction(producer_id=2, first_offset=5),
    ]


def test_a_fenced_producer_is_ended_by_a_marker_of_a_higher_epoch() -> None:
    fencing = Marker(offset=5, producer_id=1, producer_epoch=3, committed=False, first_offset=0)
    view = CommittedView([[fencing, marker(9, 1, committed=True)]], end_offset=10)
    first, second = (log_of([(1, "data")], start=offset)[1][0] for offset in (2, 7))
    assert (view.is_visible(first), view.is_visible(second)) == (False, True)


def test_a_transaction_that_began_before_the_indexed_range_has_no_known_start() -> None:
    assert list(indexed([(1, "commit"), (1, "data")]).markers) == [marker(0, 1, committed=True)]


def test_an_emptied_control_batch_is_passed_over() -> None:
    data, headers = log_of([(1, "commit")])
    emptied = bytearray(data[:61])
    emptied[8:12] = (49).to_bytes(4, "big")
    emptied[57:61] = bytes(4)
    indexer = TransactionIndexer()
    indexer.feed(emptied, scan(emptied))
    assert list(indexer.markers) == []
    assert headers[0].is_control


def test_markers_are_the_same_however_the_log_is_cut_into_chunks() -> None:
    whole = indexed(INTERLEAVED)
    indexer = TransactionIndexer()
    data, headers = log_of(INTERLEAVED)
    for header in headers:
        batch = header.view(data)
        indexer.feed(batch, scan(batch))
    assert (indexer.markers, indexer.undecided) == (whole.markers, whole.undecided)


steps = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["data", "data", "commit", "abort"])), max_size=25)


@given(steps, st.integers(0, 26))
def test_visibility_equals_that_of_a_consumer_that_reads_ahead(log: list[Step], end_offset: int) -> None:
    def outcome(offset: int, producer_id: int) -> str:
        later = (kind for pid, kind in log[offset:end_offset] if pid == producer_id and kind != "data")
        return next(later, "undecided")

    expected = [o for o, (pid, kind) in enumerate(log) if kind == "data" and outcome(o, pid) == "commit"]
    assert visible_offsets(log, end_offset=end_offset) == expected
