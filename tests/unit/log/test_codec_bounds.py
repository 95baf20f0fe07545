"""Batches of many members, frames or lies: bounded in memory, and in linear time."""

from __future__ import annotations

import gzip
import time

import cramjam
import pytest
import zstandard

from offsite.log.codec import GZIP, LZ4, ZSTD, decompress
from offsite.model.errors import DamagedBatch

MIB = 1 << 20


def lz4_frame(plain: bytes) -> bytes:
    packer = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
    packer.compress(plain)
    return bytes(packer.finish())


def test_lz4_frames_behind_the_first_one_count() -> None:
    two = lz4_frame(bytes(4 * MIB)) * 2
    assert decompress(LZ4, two, max_bytes=8 * MIB) == bytes(8 * MIB)
    with pytest.raises(DamagedBatch, match="decompresses to more"):
        decompress(LZ4, two, max_bytes=8 * MIB - 1)


@pytest.mark.parametrize(
    ("codec", "member"),
    [(GZIP, gzip.compress(b"ab", mtime=0)), (ZSTD, zstandard.ZstdCompressor().compress(b"ab"))],
)
def test_many_members_take_linear_time(codec: int, member: bytes) -> None:
    begin = time.process_time()
    assert decompress(codec, member * 50_000) == b"ab" * 50_000
    assert time.process_time() - begin < 5
