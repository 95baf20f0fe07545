"""Every codec reads what Kafka's clients write, never more than allowed, and calls damage damage."""

from __future__ import annotations

import gzip
import random
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import cramjam
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.codec import CODEC_NAMES, GZIP, LZ4, SNAPPY, ZSTD, compress, decompress
from offsite.model.errors import DamagedBatch

COMPRESSED = (GZIP, SNAPPY, LZ4, ZSTD)
PLAIN = b"".join(b'{"id": %d, "name": "user-%d"}' % (n, n * n % 97) for n in range(6000))


@given(st.binary(max_size=300), st.sampled_from(range(5)))
def test_what_goes_in_comes_out(plain: bytes, codec: int) -> None:
    assert decompress(codec, compress(codec, plain)) == plain


@pytest.mark.parametrize("codec", COMPRESSED)
def test_bodies_of_many_blocks_and_any_buffer_work(codec: int) -> None:
    for buffer in (PLAIN, bytearray(PLAIN), memoryview(PLAIN)):
        packed = compress(codec, buffer)
        assert len(packed) < len(PLAIN)
        assert decompress(codec, packed) == PLAIN
        assert decompress(codec, memoryview(bytes(packed))) == PLAIN


def test_snappy_is_read_raw_as_librdkafka_writes_it() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(PLAIN))) == PLAIN


def test_snappy_is_read_and_written_in_the_framing_of_the_java_client() -> None:
    block = bytes(cramjam.snappy.compress_raw(b"abc"))
    framed = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + struct.pack(">i", len(block)) + block
    assert compress(SNAPPY, b"abc") == framed
    assert decompress(SNAPPY, framed + struct.pack(">i", len(block)) + block) == b"abcabc"


def test_lz4_frames_have_independent_blocks_which_the_java_client_demands() -> None:
    flags = bytes(compress(LZ4, PLAIN))[4]
    assert flags >> 6 == 1
    assert flags & 0x20


@pytest.mark.parametrize("linked", [True, False])
def test_lz4_is_read_with_linked_blocks_and_checksums(linked: bool) -> None:
    compressor = cramjam.lz4.Compressor(level=9, content_checksum=True, block_linked=linked)
    compressor.compress(PLAIN)
    assert decompress(LZ4, bytes(compressor.finish())) == PLAIN


def test_lz4_blocks_that_did_not_shrink_stand_beside_those_that_did() -> None:
    plain = random.Random(7).randbytes(100_000) + PLAIN
    assert decompress(LZ4, compress(LZ4, plain)) == plain


def test_an_lz4_frame_behind_another_is_read_as_the_frame_decoder_does() -> None:
    frame = bytes(compress(LZ4, b"abc"))
    assert decompress(LZ4, frame + frame) == bytes(cramjam.lz4.decompress(frame + frame))


@pytest.mark.parametrize("codec", COMPRESSED)
def test_threads_do_not_share_what_they_work_with(codec: int) -> None:
    plains = [random.Random(seed).randbytes(1000) * 40 for seed in range(8)]
    with ThreadPoolExecutor(max_workers=8) as pool:
        found = pool.map(lambda plain: [decompress(codec, compress(codec, plain)) for _ in range(10)], plains)
    assert list(found) == [[plain] * 10 for plain in plains]


def test_zstd_frames_without_a_size_and_several_frames_are_read() -> None:
    frame = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress(PLAIN)
    assert decompress(ZSTD, frame) == PLAIN
    assert decompress(ZSTD, frame + bytes(compress(ZSTD, b"tail"))) == PLAIN + b"tail"


def test_gzip_members_are_read_one_after_the_other() -> None:
    assert decompress(GZIP, gzip.compress(PLAIN) + gzip.compress(b"tail")) == PLAIN + b"tail"


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_cut_body_is_damage_or_at_a_block_border_shorter(codec: int) -> None:
    packed = bytes(compress(codec, PLAIN[:2000]))
    for cut in range(len(packed)):
        try:
            rest = decompress(codec, packed[:cut])
        except DamagedBatch:
            continue
        assert (codec, cut, bytes(rest)) == (SNAPPY, 16, b"")  # xerial has no end mark


@pytest.mark.parametrize("codec", COMPRESSED)
def test_flipped_bits_raise_damage_or_nothing(codec: int) -> None:
    packed = bytes(compress(codec, PLAIN[:2000]))
    for bit in random.Random(7).sample(range(len(packed) * 8), 1000):
        broken = bytearray(packed)
        broken[bit // 8] ^= 1 << bit % 8
        with suppress(DamagedBatch):
            decompress(codec, broken)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_body_in_another_codec_is_named_damage(codec: int) -> None:
    for body in (b"", b"not compressed at all", bytes(40)):
        with pytest.raises(DamagedBatch, match=f"not {CODEC_NAMES[codec]}"):
            decompress(codec, body)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(DamagedBatch, match=f"no codec {codec}"):
        decompress(codec, b"")
    with pytest.raises(DamagedBatch, match=f"no codec {codec}"):
        compress(codec, b"")


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
def test_frames_that_hold_nothing_for_us_are_passed_over(codec: int) -> None:
    skipped = struct.pack("<II", 0x184D2A53, 5) + b"12345"
    frame = bytes(compress(codec, PLAIN))
    assert decompress(codec, skipped + frame + skipped + frame + skipped) == 2 * PLAIN
    assert decompress(codec, skipped) == b""
