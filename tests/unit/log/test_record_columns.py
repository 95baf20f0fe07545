"""Columns are what decoded records are, of sound batches and of damaged ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.batch import HEADER_BYTES, scan
from offsite.log.records.batch_records import decode, encode
from offsite.log.records.record import Record
from offsite.log.records.record_columns import RecordColumns, read_columns
from offsite.model.errors import Bug, DamagedBatch

_BLOBS = st.none() | st.binary(max_size=20)
_NAMES = st.binary(max_size=4).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
_HEADERS = st.lists(st.tuples(_NAMES, _BLOBS), max_size=3)


@st.composite
def _batches(draw: st.DrawFn) -> bytes:
    offsets = sorted(draw(st.sets(st.integers(0, 300), min_size=1, max_size=12)))
    records = [
        Record(offset, draw(st.integers(-1, 1 << 62)), 0, draw(_BLOBS), draw(_BLOBS), tuple(draw(_HEADERS)))
        for offset in offsets
    ]
    return bytes(encode(records, codec=draw(st.integers(0, 4)), is_append_time=draw(st.booleans())))


def _columns(batch: bytes) -> list[Record] | type[Exception]:
    try:
        return read_columns(batch, *scan(batch)).records()
    except DamagedBatch as error:
        return type(error)


def _decoded(batch: bytes) -> list[Record] | type[Exception]:
    try:
        return decode(batch, *scan(batch))
    except DamagedBatch as error:
        return type(error)


@given(_batches())
def test_columns_hold_the_records_that_decoding_gives(batch: bytes) -> None:
    assert read_columns(batch, *scan(batch)).records() == decode(batch, *scan(batch))


@given(_batches(), st.data())
def test_a_damaged_batch_is_the_same_damage_or_the_same_records(batch: bytes, data: st.DataObject) -> None:
    damaged = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    assert _columns(bytes(damaged)) == _decoded(bytes(damaged))


@given(_batches(), st.integers(0, 300), st.integers(0, 300))
def test_within_keeps_the_records_at_these_offsets(batch: bytes, start: int, end: int) -> None:
    columns = read_columns(batch, *scan(batch))
    kept = [record for record in columns.records() if start <= record.offset < end]
    assert columns.within(start, end).records() == kept


def test_no_records_are_no_columns_worth() -> None:
    assert RecordColumns.of([]).records() == RecordColumns.of([]).within(0, 9).records() == []
    assert RecordColumns.of([]).size_bytes() == 0


def test_offsets_that_fall_are_a_bug() -> None:
    columns = RecordColumns.of([Record(5, 0, 0, None, None), Record(5, 0, 0, None, None)])
    with pytest.raises(Bug, match="offsets fall"):
        columns.check_rise()
