"""Batches with records taken out: what stays is what it was, and a reader of Kafka's format finds nothing odd."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.batch import DELETE_HORIZON_BIT, BatchHeader, scan, verify_crc
from offsite.log.records.batch_records import decode, encode
from offsite.log.records.record import Record
from offsite.log.rewrite import empty_batch, keep_offsets
from offsite.model.errors import DamagedBatch

BASE = 5_000_000_000
CODECS = (0, 1, 2, 3, 4)


def logged(count: int, *, gaps: bool = False, is_append_time: bool = False) -> list[Record]:
    step = 3 if gaps else 1
    return [
        Record(
            BASE + number * step,
            1_700_000_000_000 + (7919 * number) % 1000,
            1 if is_append_time else 0,
            b"%d" % number,
            None if number % 3 == 2 else b"v" * number,
            (("name", b"x"), ("na\udcffme", None)) if number % 4 == 1 else (),
        )
        for number in range(count)
    ]


def batch_of(records: list[Record], *, codec: int, is_append_time: bool = False) -> tuple[bytes, BatchHeader]:
    data = encode(
        records,
        codec=codec,
        leader_epoch=4,
        producer_id=77,
        producer_epoch=2,
        base_sequence=900,
        is_transactional=True,
        is_append_time=is_append_time,
    )
    (header,) = scan(data)
    return bytes(data), header


@given(
    count=st.integers(1, 30),
    chosen=st.sets(st.integers(0, 29), min_size=1),
    codec=st.sampled_from(CODECS),
    gaps=st.booleans(),
    is_append_time=st.booleans(),
)
def test_what_stays_keeps_its_place_and_its_batch(
    count: int, chosen: set[int], codec: int, gaps: bool, is_append_time: bool
) -> None:
    records = logged(count, gaps=gaps, is_append_time=is_append_time)
    kept = [record for number, record in enumerate(records) if number in chosen] or records[:1]
    data, header = batch_of(records, codec=codec, is_append_time=is_append_time)
    made = keep_offsets(data, header, [record.offset for record in kept])
    (new,) = scan(bytes(made))
    verify_crc(made, [new])
    same = ("base_offset", "last_offset_delta", "leader_epoch", "attributes", "base_timestamp_ms", "producer_id",
            "producer_epoch", "base_sequence")  # fmt: skip
    assert [getattr(new, name) for name in same] == [getattr(header, name) for name in same]
    assert new.record_count == len(kept)
    before = {record.offset: record for record in decode(data, header)}
    assert decode(made, new) == [before[record.offset] for record in kept]
    latest = header.max_timestamp_ms if is_append_time else max(record.timestamp_ms for record in kept)
    assert new.max_timestamp_ms == latest


def test_a_filtered_batch_can_be_filtered_again() -> None:
    data, header = batch_of(logged(20), codec=3)
    once = bytes(keep_offsets(data, header, [BASE + n for n in range(0, 20, 2)]))
    (first,) = scan(once)
    twice = bytes(keep_offsets(once, first, [BASE + 4, BASE + 10]))
    (second,) = scan(twice)
    assert [record.offset for record in decode(twice, second)] == [BASE + 4, BASE + 10]
    assert second.last_offset == header.last_offset


def test_times_count_from_the_base_also_behind_a_delete_horizon() -> None:
    data, header = batch_of(logged(3), codec=0)
    horizon = header._replace(attributes=header.attributes | DELETE_HORIZON_BIT)
    made = bytes(keep_offsets(data, horizon, [BASE + 1]))
    (new,) = scan(made)
    assert new.attributes & DELETE_HORIZON_BIT
    assert new.base_timestamp_ms == header.base_timestamp_ms
    assert decode(made, new)[0].timestamp_ms == 1_700_000_000_000 + 919


def test_an_offset_that_is_not_there_is_damage() -> None:
    data, header = batch_of(logged(5, gaps=True), codec=0)
    with pytest.raises(DamagedBatch, match="1 of the 2 records"):
        keep_offsets(data, header, [BASE, BASE + 1])


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_body_that_is_cut_is_damage(cut: int) -> None:
    data, header = batch_of(logged(5), codec=0)
    torn = data[:-cut]
    with pytest.raises(DamagedBatch):
        keep_offsets(torn, header._replace(size_bytes=len(torn)), [BASE + 4])


def test_an_emptied_batch_still_says_how_far_the_log_went() -> None:
    data, header = batch_of(logged(5), codec=4)
    made = bytes(empty_batch(header))
    (new,) = scan(made)
    verify_crc(made, [new])
    assert (new.base_offset, new.last_offset, new.record_count) == (BASE, BASE + 4, 0)
    assert (new.producer_id, new.base_sequence, new.codec) == (77, 900, 0)
    assert decode(made, new) == []
    assert data[:8] == made[:8]
