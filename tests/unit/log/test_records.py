"""Records survive encode and decode exactly, whichever of the two codecs does the work."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.batch import HEADER_BYTES, BatchHeader, scan, verify_crc
from offsite.log.codec import compress
from offsite.log.records import batch_records
from offsite.log.records.batch_records import decode, encode, iterate, renumber
from offsite.log.records.record import Record
from offsite.log.records.record_arrow import ArrowColumns
from offsite.log.records.record_body import read_records, write_records
from offsite.model.errors import Bug, DamagedBatch
from offsite.model.units import MIB

CODECS = range(5)
# Offset 7, base timestamp 1000 ms, by hand after KIP-98: key "k", value null, no headers; then at offset 9 and 995 ms
# key null, value "", headers ("h", null) and ("h", "1").
GOLDEN_BODY = bytes.fromhex(
    "0e" "00" "00" "00" "026b" "01" "00"
    "1a" "00" "09" "04" "01" "00" "04" "0268" "01" "0268" "0231"
)  # fmt: skip
GOLDEN_RECORDS = [
    Record(7, 1000, 0, b"k", None, ()),
    Record(9, 995, 0, None, b"", (("h", None), ("h", b"1"))),
]

blobs = st.none() | st.binary(max_size=40)
names = st.binary(max_size=8).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
times_ms = st.integers(min_value=-1, max_value=2**62)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    offset, records = draw(st.integers(0, 2**60)), []
    for _ in range(draw(st.integers(1, 6))):
        headers = tuple(draw(st.lists(st.tuples(names, blobs), max_size=3)))
        records.append(Record(offset, draw(times_ms), 0, draw(blobs), draw(blobs), headers))
        offset += draw(st.integers(1, 2**20))
    return records


def only(batch: bytearray) -> BatchHeader:
    (header,) = scan(batch)
    verify_crc(batch, [header])
    assert header.size_bytes == len(batch)
    return header


@given(record_lists(), st.sampled_from(CODECS))
def test_every_record_comes_back_as_it_went_in(records: list[Record], codec: int) -> None:
    batch = encode(records, codec=codec)
    header = only(batch)
    assert decode(batch, header) == records
    assert header.codec == codec
    assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
    assert header.base_timestamp_ms == records[0].timestamp_ms
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in records)
    assert header.record_count == len(records)


def test_the_bytes_are_those_of_the_format() -> None:
    batch = encode(GOLDEN_RECORDS)
    assert batch[HEADER_BYTES:] == GOLDEN_BODY
    assert decode(batch, only(batch)) == GOLDEN_RECORDS
    assert write_records(GOLDEN_RECORDS, base_offset=7, base_timestamp_ms=1000) == GOLDEN_BODY


@given(record_lists())
def test_both_ways_to_encode_write_the_same_bytes(records: list[Record]) -> None:
    exact = write_records(records, base_offset=records[0].offset, base_timestamp_ms=records[0].timestamp_ms)
    assert encode(records)[HEADER_BYTES:] == exact


@given(record_lists(), st.booleans())
def test_both_ways_to_decode_read_the_same_records(records: list[Record], append_time: bool) -> None:
    batch = encode(records)
    header = only(batch)
    if append_time:
        header = header._replace(attributes=8, max_timestamp_ms=77)
        batch[22] = 8
        batch[35:43] = (77).to_bytes(8, "big")
    one_by_one = read_records(
        memoryview(batch)[HEADER_BYTES:],
        count=header.record_count,
        base_offset=header.base_offset,
        base_timestamp_ms=header.base_timestamp_ms,
        append_time_ms=77 if append_time else None,
    )
    exact = list(one_by_one)
    assert decode(batch, header) == exact
    if append_time:
        assert {(r.timestamp_ms, r.timestamp_type) for r in exact} == {(77, 1)}


def test_a_batch_of_another_encoder_is_read() -> None:
    builder = DefaultRecordBatchBuilder(2, 4, True, 5, 6, 7, 1 << 20)
    for delta in range(100):
        builder.append(delta, 1000 + delta, b"key", b"value", [("h", None)])
    batch = builder.build()
    header = only(batch)
    assert (header.codec, header.is_transactional, header.producer_id) == (4, True, 5)
    assert decode(batch, header) == [
        Record(delta, 1000 + delta, 0, b"key", b"value", (("h", None),)) for delta in range(100)
    ]


def test_header_names_that_are_not_utf8_keep_their_bytes() -> None:
    name = b"\xff\x80a".decode("utf-8", "surrogateescape")
    records = [Record(3, 5, 0, b"", None, ((name, b"v"), ("é", None)))]
    batch = encode(records, codec=3)
    assert decode(batch, only(batch)) == records
    assert b"\xff\x80a" in encode(records)


def test_a_first_record_without_a_time_does_not_shift_the_others() -> None:
    records = [Record(0, -1, 0, None, b"a"), Record(1, 100, 0, None, b"b"), Record(2, 50, 0, None, b"c")]
    batch = encode(records)
    assert decode(batch, only(batch)) == records


def test_the_codec_is_kept_even_where_it_makes_the_batch_larger() -> None:
    records = [Record(0, 0, 0, None, b"x")]
    for codec in CODECS:
        batch = encode(records, codec=codec)
        assert only(batch).codec == codec
        assert decode(batch, only(batch)) == records


def test_producer_fields_and_base_offset_are_written() -> None:
    batch = encode(
        [Record(12, 0, 0, None, None)],
        base_offset=10,
        leader_epoch=4,
        producer_id=5,
        producer_epoch=6,
        base_sequence=7,
        is_transactional=True,
    )
    header = only(batch)
    assert (header.base_offset, header.last_offset, header.has_gaps) == (10, 12, True)
    assert (header.leader_epoch, header.is_transactional) == (4, True)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 6, 7)
    assert decode(batch, header)[0].offset == 12


def test_the_largest_offset_delta_fits_and_one_more_is_a_bug() -> None:
    records = [Record(0, 0, 0, None, None), Record(2**31 - 1, 0, 0, None, None)]
    batch = encode(records)
    assert decode(batch, only(batch)) == records
    with pytest.raises(Bug):
        encode([records[0], Record(2**31, 0, 0, None, None)])
    with pytest.raises(Bug):
        encode([])


def test_renumbering_changes_offsets_only() -> None:
    dense = renumber(GOLDEN_RECORDS, start=100)
    assert [record.offset for record in dense] == [100, 101]
    assert [record[1:] for record in dense] == [record[1:] for record in GOLDEN_RECORDS]


@pytest.mark.parametrize("codec", CODECS)
def test_a_body_that_is_not_what_the_header_promises_is_damage(codec: int) -> None:
    good = encode(GOLDEN_RECORDS, codec=codec)
    fewer, more = only(good)._replace(record_count=1), only(good)._replace(record_count=3)
    for header in (fewer, more):
        broken = bytearray(good)
        broken[57:61] = header.record_count.to_bytes(4, "big")
        with pytest.raises(DamagedBatch):
            decode(broken, header)


@pytest.mark.parametrize("cut", range(len(GOLDEN_BODY)))
def test_a_cut_body_is_damage_for_both_decoders(cut: int) -> None:
    with pytest.raises(DamagedBatch):
        list(read_records(GOLDEN_BODY[:cut], count=2, base_offset=7, base_timestamp_ms=1000, append_time_ms=None))
    batch = encode(GOLDEN_RECORDS)[: HEADER_BYTES + cut]
    header = only(encode(GOLDEN_RECORDS))._replace(size_bytes=len(batch))
    with pytest.raises(DamagedBatch):
        decode(batch, header)


@given(st.binary(max_size=60), st.sampled_from(CODECS))
def test_a_garbage_body_is_damage_or_records_never_another_error(body: bytes, codec: int) -> None:
    batch = encode(GOLDEN_RECORDS, codec=codec)[:HEADER_BYTES] + compress(codec, body)
    header = only(encode(GOLDEN_RECORDS, codec=codec))._replace(size_bytes=len(batch))
    with suppress(DamagedBatch):
        decode(batch, header)


def batch_of_the_least(count: int, codec: int = 4) -> bytearray:
    """So many records without key, value, headers, time and distance from the first."""
    batch = encode([Record(0, 0, 0, None, None)], codec=codec)
    body = compress(codec, bytes.fromhex("0c 00 00 00 01 01 00") * count)
    batch[57:61] = count.to_bytes(4, "big")
    batch[8:12] = (HEADER_BYTES - 12 + len(body)).to_bytes(4, "big")
    return batch[:HEADER_BYTES] + body


@pytest.mark.parametrize("count", [-1, 2, 1 << 20])
def test_a_header_that_tells_of_more_records_than_there_is_room_for_is_damage(count: int) -> None:
    batch = encode([Record(0, 0, 0, None, b"12345")])
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    (header,) = scan(batch)
    for read in (decode, lambda *of: list(iterate(*of))):
        with pytest.raises(DamagedBatch, match=r"tells of|says that"):
            read(batch, header)


def test_records_come_one_by_one_however_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_of_the_least(100_000)
    assert len(batch) < 1000
    (header,) = scan(batch)
    tracemalloc.start()
    try:
        assert sum(1 for _ in iterate(batch, header)) == 100_000
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()
    assert len(decode(batch, header)) == 100_000
    monkeypatch.setattr(batch_records, "MAX_DECODED_RECORDS", 99_999)
    with pytest.raises(DamagedBatch, match="more than the 99999"):
        decode(batch, header)
    with pytest.raises(DamagedBatch, match="more than the 99999"):
        ArrowColumns(topic="t", partition=0).add_batch(batch, header, commit=None)


@given(record_lists(), st.sampled_from(CODECS))
def test_one_by_one_they_are_the_same(records: list[Record], codec: int) -> None:
    batch = encode(records, codec=codec)
    assert list(iterate(batch, only(batch))) == records


@pytest.mark.parametrize("base", [(1 << 63) - 2, -5])
def test_a_record_outside_of_what_kafka_can_number_is_damage(base: int) -> None:
    name = b"\xff".decode("utf-8", "surrogateescape")
    plain = write_records([Record(3, 0, 0, None, None, ((name, None),))], base_offset=0, base_timestamp_ms=0)
    with pytest.raises(DamagedBatch):
        list(read_records(plain, count=1, base_offset=base, base_timestamp_ms=0, append_time_ms=None))
    with pytest.raises(DamagedBatch):
        list(read_records(plain, count=1, base_offset=0, base_timestamp_ms=1 << 63, append_time_ms=None))
