"""A batch made ready for a broker differs in exactly the fields that must differ."""

from __future__ import annotations

import pytest

from offsite.log.batch import CRC_START, HEADER_BYTES, BatchHeader, scan, verify_crc
from offsite.log.buffer import Buffer
from offsite.log.records.batch_records import decode, encode
from offsite.log.records.record import Record
from offsite.log.rewrite import filter_records, for_produce, needs_reencode, reencode_dense
from offsite.model.errors import Bug

ODD_NAME = b"\xff\xfe".decode("utf-8", "surrogateescape")
RECORDS = [
    Record(100, 1000, 0, b"a", b"1", (("h", None), ("h", b""))),
    Record(104, 900, 0, None, b"", ()),
    Record(109, 1100, 0, b"", None, ((ODD_NAME, b"\0"),)),
]


def only(batch: Buffer) -> BatchHeader:
    (header,) = scan(batch)
    verify_crc(batch, [header])
    return header


def source_batch(*, codec: int = 3, transactional: bool = True) -> bytearray:
    return encode(
        RECORDS,
        codec=codec,
        leader_epoch=9,
        producer_id=5,
        producer_epoch=6,
        base_sequence=7,
        is_transactional=transactional,
    )


def with_attributes(batch: bytearray, bits: int) -> bytearray:
    """The batch with more attribute bits, its CRC not renewed (as `for_produce` does not look at it)."""
    changed = bytearray(batch)
    changed[CRC_START + 1] |= bits
    return changed


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("delete_horizon", [0x40, 0])
def test_the_fields_a_broker_checks_are_set_and_nothing_else_changes(transactional: bool, delete_horizon: int) -> None:
    batch = with_attributes(source_batch(), delete_horizon)
    before = scan(batch)[0]
    body = bytes(batch[HEADER_BYTES:])
    for_produce(batch, producer_id=50, producer_epoch=60, base_sequence=70, transactional=transactional)
    assert only(batch) == before._replace(
        base_offset=0,
        leader_epoch=-1,
        producer_id=50,
        producer_epoch=60,
        base_sequence=70,
        attributes=3 | (16 if transactional else 0),
        crc=only(batch).crc,
    )
    assert batch[HEADER_BYTES:] == body
    assert [record[1:] for record in decode(batch, only(batch))] == [record[1:] for record in RECORDS]


def test_a_batch_inside_a_larger_buffer_is_changed_in_place() -> None:
    data = bytearray(source_batch() + encode([Record(200, 0, 0, None, b"x")]))
    first, second = scan(data)
    for_produce(first.view(data), producer_id=-1, producer_epoch=-1, base_sequence=-1)
    assert scan(data)[0].base_offset == 0
    assert scan(data)[1] == second
    verify_crc(data, scan(data))


def test_half_a_batch_or_two_batches_are_a_bug() -> None:
    batch = source_batch()
    for wrong in (batch[:-1], batch + batch):
        with pytest.raises(Bug):
            for_produce(wrong, producer_id=1, producer_epoch=1, base_sequence=1)


@pytest.mark.parametrize("bit", [0x08, 0x20])
def test_a_batch_no_client_may_produce_is_a_bug(bit: int) -> None:
    with pytest.raises(Bug):
        for_produce(with_attributes(source_batch(), bit), producer_id=1, producer_epoch=1, base_sequence=1)


def test_gaps_and_log_append_time_need_reencoding() -> None:
    dense = only(encode([Record(4, 0, 0, None, None), Record(5, 0, 0, None, None)]))
    assert not needs_reencode(dense)
    assert needs_reencode(dense._replace(attributes=8))
    assert needs_reencode(only(source_batch()))
    assert needs_reencode(dense._replace(record_count=0))


@pytest.mark.parametrize("codec", range(5))
def test_dense_reencoding_closes_gaps_and_keeps_all_else(codec: int) -> None:
    batch = source_batch(codec=codec)
    dense = reencode_dense(batch, only(batch))
    header = only(dense)
    assert not needs_reencode(header)
    assert header.codec == codec
    assert (header.leader_epoch, header.producer_id, header.producer_epoch) == (9, 5, 6)
    assert (header.base_sequence, header.is_transactional) == (7, True)
    assert decode(dense, header) == [Record(n, *record[1:]) for n, record in enumerate(RECORDS)]


def test_log_append_time_becomes_each_record_s_own_time() -> None:
    batch = with_attributes(source_batch(), 0x08)
    dense = reencode_dense(batch, scan(batch)[0])
    assert [(r.timestamp_ms, r.timestamp_type) for r in decode(dense, only(dense))] == [(1100, 0)] * 3


def test_an_emptied_batch_cannot_be_reencoded() -> None:
    batch = bytearray(source_batch(codec=0)[:HEADER_BYTES])
    batch[8:12] = (HEADER_BYTES - 12).to_bytes(4, "big")
    batch[57:61] = bytes(4)
    with pytest.raises(Bug):
        reencode_dense(batch, scan(batch)[0])


def test_keeping_every_record_keeps_the_very_batch() -> None:
    batch = source_batch()
    assert filter_records(batch, only(batch), lambda _: True) is batch


def test_keeping_some_records_keeps_their_offsets_times_and_codec() -> None:
    batch = source_batch()
    kept = filter_records(batch, only(batch), lambda record: record.timestamp_ms >= 1000)
    assert kept is not None
    assert decode(kept, only(kept)) == [RECORDS[0], RECORDS[2]]
    assert (only(kept).codec, only(kept).base_offset) == (3, 100)


def test_keeping_no_record_keeps_nothing() -> None:
    batch = source_batch()
    assert filter_records(batch, only(batch), lambda _: False) is None
