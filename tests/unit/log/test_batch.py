"""Scanning finds whole batches and nothing else, and the CRC finds every flipped bit."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from offsite.log import batch as batch_module
from offsite.log.batch import CRC_START, HEADER_BYTES, HEADER_STRUCT, BatchHeader, scan, verify_crc
from offsite.model.errors import Bug, DamagedBatch, OldMessageFormat
from tests.batches import make_batch

# A batch by hand, byte by byte after KIP-98: offset 7, one record (key "k", value null, no headers) at 1000 ms.
GOLDEN = bytes.fromhex(
    "0000000000000007" "00000039" "00000005" "02" "b27ef302"  # base offset, length, leader epoch, magic, CRC32C
    "0000" "00000000" "00000000000003e8" "00000000000003e8"  # attributes, last offset delta, base and max timestamp
    "ffffffffffffffff" "ffff" "ffffffff" "00000001"  # producer id, epoch, base sequence, record count
    "0e" "00" "00" "00" "026b" "01" "00"  # record length, attributes, time and offset delta, key, value, headers
)  # fmt: skip


def batch(*, base: int = 0, last_delta: int = 0, count: int = 1, attributes: int = 0, body: bytes = b"body") -> bytes:
    """A whole batch with a valid CRC around any body."""
    after_crc = struct.pack(">hiqqqhii", attributes, last_delta, 10, 20, -1, -1, -1, count) + body
    length = HEADER_BYTES - 12 + len(body)
    return struct.pack(">qiibI", base, length, 3, 2, crc32c(after_crc)) + after_crc


def three_batches() -> bytes:
    return batch(base=5, last_delta=4, count=5) + batch(base=12) + batch(base=13, body=b"")


def test_each_batch_is_found_where_it_is() -> None:
    headers = scan(three_batches())
    assert [(h.position, h.size_bytes, h.base_offset, h.last_offset, h.next_offset) for h in headers] == [
        (0, 65, 5, 9, 10),
        (65, 65, 12, 12, 13),
        (130, 61, 13, 13, 14),
    ]
    assert headers[2].end_position == len(three_batches())


def test_all_fields_come_out_as_they_went_in() -> None:
    fields = (2**62, 49, 2**30, 2, 0xFEDCBA98, 0x7F, 9, -1, 2**62 + 1, 2**61, 2**14, 2**29, 3)
    (header,) = scan(HEADER_STRUCT.pack(*fields))
    assert header == BatchHeader(0, 61, 2**62, 2**30, 0xFEDCBA98, 0x7F, 9, -1, 2**62 + 1, 2**61, 2**14, 2**29, 3)


def test_a_batch_written_by_hand_is_read_and_its_crc_holds() -> None:
    (header,) = scan(GOLDEN)
    verify_crc(GOLDEN, [header])
    assert (header.base_offset, header.leader_epoch, header.size_bytes) == (7, 5, len(GOLDEN))
    assert (header.base_timestamp_ms, header.max_timestamp_ms, header.record_count) == (1000, 1000, 1)


def test_scanning_can_start_behind_other_bytes() -> None:
    (header,) = scan(b"xyz" + batch(base=4), start=3)
    assert header.position == 3
    assert header.view(b"xyz" + batch(base=4)) == batch(base=4)


def test_attributes_are_spelled_out() -> None:
    (plain,) = scan(batch(attributes=3))
    assert (plain.codec, plain.timestamp_type, plain.is_transactional, plain.is_control) == (
        3,
        0,
        False,
        False,
    )
    assert not plain.has_gaps
    (full,) = scan(batch(attributes=4 | 8 | 16 | 32 | 64, last_delta=1))
    assert (full.codec, full.timestamp_type, full.is_transactional, full.is_control) == (4, 1, True, True)
    assert full.has_gaps


@pytest.mark.parametrize("cut", range(len(three_batches()) + 1))
def test_a_torn_tail_is_left_out(cut: int) -> None:
    headers = scan(three_batches()[:cut])
    assert len(headers) == sum(cut >= whole for whole in (65, 130, 191))
    verify_crc(three_batches(), headers)


@pytest.mark.parametrize("length", [0, -1, -(2**31), 48])
@pytest.mark.parametrize("tail", [b"", b"x" * 100])
def test_an_impossible_length_is_refused(length: int, tail: bytes) -> None:
    broken = bytearray(batch() + tail)
    struct.pack_into(">i", broken, 8, length)
    with pytest.raises(DamagedBatch, match=f"length {length}"):
        scan(broken)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [14 + 12, 200])
def test_an_old_message_format_is_named_with_its_offset(magic: int, size: int) -> None:
    old = struct.pack(">qiIb", 4711, size - 12, 0, magic).ljust(size, b"\0")
    with pytest.raises(OldMessageFormat, match="offset 4711"):
        scan(batch() + old)


@pytest.mark.parametrize("size", [30, 61, 500])
def test_a_preallocated_tail_of_zeros_is_damage_not_an_old_format(size: int) -> None:
    with pytest.raises(DamagedBatch):
        scan(batch() + bytes(size))


def test_an_unknown_magic_is_refused() -> None:
    broken = bytearray(batch())
    broken[16] = 3
    with pytest.raises(DamagedBatch, match="magic 3"):
        scan(broken)


@pytest.mark.parametrize("second", [4, 9, 0, -1])
def test_offsets_that_do_not_rise_are_refused(second: int) -> None:
    with pytest.raises(DamagedBatch, match="do not rise"):
        scan(batch(base=5, last_delta=4, count=5) + batch(base=second))


def test_a_negative_offset_or_delta_is_refused() -> None:
    for broken in (batch(base=-1), batch(last_delta=-1)):
        with pytest.raises(DamagedBatch, match="do not rise"):
            scan(broken)


def test_a_good_crc_passes_and_a_bad_one_names_the_offset() -> None:
    data = bytearray(three_batches())
    verify_crc(data, scan(data))
    data[100] ^= 1
    with pytest.raises(DamagedBatch, match="offset 12"):
        verify_crc(data, scan(data))


def is_caught(data: bytes) -> bool:
    try:
        headers = scan(data)
        verify_crc(data, headers)
    except (DamagedBatch, OldMessageFormat):
        return True
    return sum(h.size_bytes for h in headers) != len(data)  # seems torn: the reader compares with what it expects


def test_every_flipped_bit_is_caught_or_lies_in_base_offset_or_leader_epoch() -> None:
    for bit in range(len(GOLDEN) * 8):
        data = bytearray(GOLDEN + batch(base=1000))
        data[bit // 8] ^= 1 << (bit % 8)
        outside_crc = bit // 8 < 8 or 12 <= bit // 8 < 16
        rises = 0 <= int.from_bytes(data[:8], "big", signed=True) < 1000
        assert is_caught(bytes(data)) == (not outside_crc or not rises), f"bit {bit}"


def test_the_crc_begins_at_the_attributes() -> None:
    assert struct.calcsize(">qiibI") == CRC_START


def test_a_batch_and_a_header_that_do_not_belong_together_are_a_bug() -> None:
    (header,) = scan(batch())
    header.check_is_of(batch())
    with pytest.raises(Bug):
        header.check_is_of(batch() + b"x")


@given(st.binary(max_size=200))
def test_garbage_never_raises_anything_but_damage(data: bytes) -> None:
    with suppress(DamagedBatch, OldMessageFormat):
        verify_crc(data, scan(data))


def test_a_large_buffer_is_scanned_like_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(make_batch(base, value=b"x" * (1 + base % 97)) for base in range(0, 3000, 10))
    wanted = scan(data)
    for size in (1, 100, 1000, 10_000, len(data) - 1):
        monkeypatch.setattr(batch_module, "_SCANNED_BYTES", size)
        assert scan(data) == wanted
        assert scan(data[:-1]) == wanted[:-1]
        assert scan(data, start=wanted[7].position) == wanted[7:]
        with pytest.raises(DamagedBatch):
            scan(data + data)
        with pytest.raises(DamagedBatch):
            scan(data + bytes(100))


def test_a_large_buffer_of_nothing_but_small_batches_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(make_batch(base) for base in range(0, 1000, 10))
    monkeypatch.setattr(batch_module, "MAX_BATCHES", 99)
    assert len(scan(data)) == 100
    monkeypatch.setattr(batch_module, "_SCANNED_BYTES", 1000)
    with pytest.raises(DamagedBatch, match="more than 99 batches"):
        scan(data)
