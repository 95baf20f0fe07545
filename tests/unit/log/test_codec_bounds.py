"""Bodies of many members, frames or lies: bounded in memory, and in linear time."""

from __future__ import annotations

import gzip
import random
import struct
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import cramjam
import pytest
import zstandard

from offsite.log.codec import GZIP, LZ4, MAX_PLAIN_BYTES, SNAPPY, ZSTD, compress, decompress
from offsite.model.bounds import MAX_EXPANDED_BYTES
from offsite.model.errors import DamagedBatch
from offsite.model.units import MIB

COMPRESSED = (GZIP, SNAPPY, LZ4, ZSTD)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_growing_beyond_the_limit_is_refused(codec: int) -> None:
    packed = compress(codec, bytes(10 << 20))
    assert decompress(codec, packed, max_bytes=16 << 20) == bytes(10 << 20)
    with pytest.raises(DamagedBatch, match="more than"):
        decompress(codec, packed, max_bytes=(10 << 20) - 1)


def test_a_zstd_frame_that_hides_its_size_is_refused_before_it_grows() -> None:
    hiding = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(10 << 20))
    with pytest.raises(DamagedBatch, match="more than"):
        decompress(ZSTD, hiding, max_bytes=(10 << 20) - 1)


def peak_bytes(work: Callable[[], object]) -> int:
    """The most that Python's own objects took while it ran, refused or not."""
    tracemalloc.start()
    try:
        with suppress(DamagedBatch):
            work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_batch_and_a_record_that_is_all_of_it_fit_into_a_worker() -> None:
    assert 2 * MAX_PLAIN_BYTES < 1024 * MIB
    assert MAX_PLAIN_BYTES <= MAX_EXPANDED_BYTES


@pytest.mark.parametrize("codec", COMPRESSED)
def test_the_limit_is_one_for_all_frames_of_a_body_together(codec: int) -> None:
    packed = bytes(compress(codec, bytes(1 << 20))) * (1 if codec == SNAPPY else 8)
    with pytest.raises(DamagedBatch, match="more than"):
        decompress(codec, packed, max_bytes=1 << (19 if codec == SNAPPY else 20))


@pytest.mark.parametrize("linked", [True, False])
def test_lz4_of_the_frame_decoder_is_bounded_as_well(linked: bool) -> None:
    compressor = cramjam.lz4.Compressor(level=9, content_checksum=True, block_linked=linked)
    compressor.compress(bytes(5 << 20))
    packed = bytes(compressor.finish())
    assert decompress(LZ4, packed + packed, max_bytes=10 << 20) == bytes(10 << 20)
    for limit in ((10 << 20) - 1, 6 << 20, 1000):
        with pytest.raises(DamagedBatch):
            decompress(LZ4, packed + packed, max_bytes=limit)


def zstd_of_one_byte(size_bytes: int, stated_bytes: int) -> bytes:
    """A frame of blocks that repeat one byte, which says that it holds so many."""
    blocks = size_bytes // (128 << 10)
    header = struct.pack("<IBQ", 0xFD2FB528, 0xC0, stated_bytes)[:5] + b"\x38" + struct.pack("<Q", stated_bytes)
    each = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"a"
    last = ((128 << 10) << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"a"
    return header + each * (blocks - 1) + last


def test_a_zstd_frame_is_not_believed_when_it_says_how_small_it_is() -> None:
    assert decompress(ZSTD, zstd_of_one_byte(64 << 20, 64 << 20)) == b"a" * (64 << 20)
    lie = zstd_of_one_byte(256 << 20, 1000)
    assert len(lie) < 10_000
    assert peak_bytes(lambda: decompress(ZSTD, lie, max_bytes=1 << 20)) < 40 * MIB
    with pytest.raises(DamagedBatch):
        decompress(ZSTD, lie, max_bytes=1 << 20)


def test_a_zstd_body_of_many_portions_is_read_once() -> None:
    plain = random.Random(1).randbytes(1 << 20) * 40
    for known in (True, False):
        packed = zstandard.ZstdCompressor(write_content_size=known, write_checksum=True).compress(plain)
        assert decompress(ZSTD, packed) == plain
        assert decompress(ZSTD, packed + compress(ZSTD, b"x")) == plain + b"x"
        for cut in (len(packed) - 1, len(packed) // 2, 17 << 10):
            with pytest.raises(DamagedBatch):
                decompress(ZSTD, packed[:cut])


def test_blocks_of_a_byte_each_take_no_object_each() -> None:
    lz4 = struct.pack("<IBBB", 0x184D2204, 0x60, 0x40, 0) + 20_000 * struct.pack("<IB", 0x8000_0001, 97) + bytes(4)
    assert decompress(LZ4, lz4) == b"a" * 20_000
    assert peak_bytes(lambda: decompress(LZ4, lz4)) < 2 * MIB
    block = bytes(cramjam.snappy.compress_raw(b"a"))
    snappy = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + 20_000 * (struct.pack(">i", len(block)) + block)
    assert decompress(SNAPPY, snappy) == b"a" * 20_000
    assert peak_bytes(lambda: decompress(SNAPPY, snappy)) < 2 * MIB


@pytest.mark.parametrize(
    ("codec", "member"),
    [(GZIP, gzip.compress(b"ab", mtime=0)), (ZSTD, zstandard.ZstdCompressor().compress(b"ab"))],
)
def test_many_members_take_linear_time(codec: int, member: bytes) -> None:
    begin = time.process_time()
    assert decompress(codec, member * 50_000) == b"ab" * 50_000
    assert time.process_time() - begin < 5


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_large_body_is_never_there_twice(codec: int) -> None:
    packed = compress(codec, bytes(64 << 20))
    assert peak_bytes(lambda: decompress(codec, packed)) < 100 * MIB
