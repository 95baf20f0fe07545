"""The codecs of Avro blocks. A snappy block ends with a CRC32, a zstandard frame holds a checksum: both find flipped
bits.

Output is bounded, so a damaged or hostile block cannot exhaust a worker's memory. Format: Avro 1.11 specification,
object container files, required and optional codecs.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence

from offsite.log.buffer import Buffer
from offsite.log.codec import SNAPPY, ZSTD, decompress
from offsite.model.bounds import MAX_RECORD_BYTES
from offsite.model.errors import BadOption, DamagedBatch

__all__ = ["CHECKED_CODECS", "CODECS", "DEFAULT_CODEC", "BadBlock", "decompress_block", "make_compressor"]

CODECS = ("null", "deflate", "snappy", "zstandard")
CHECKED_CODECS = frozenset({"snappy", "zstandard"})
"""Codecs that find a flipped bit. (zstandard: in offsite's files, and wherever the writer enabled checksums.)"""
DEFAULT_CODEC = "snappy"
MAX_BLOCK_BYTES = MAX_RECORD_BYTES

_CRC = struct.Struct(">I")
_DEFLATE_LEVEL, _ZSTD_LEVEL = 1, 1  # a higher one costs more than all the rest of an export


class BadBlock(ValueError):
    """A block breaks the rules of its codec."""


def make_compressor(codec: str) -> Callable[[bytes], Sequence[Buffer]]:
    """Make a function that returns the parts of a compressed block. Raises `BadOption` for a codec outside `CODECS`."""
    if codec == "null":
        return lambda plain: (plain,)
    if codec == "deflate":
        return lambda plain: (zlib.compress(plain, _DEFLATE_LEVEL, -zlib.MAX_WBITS),)
    if codec == "snappy":
        import cramjam

        return lambda plain: (memoryview(cramjam.snappy.compress_raw(plain)), _CRC.pack(zlib.crc32(plain)))
    if codec == "zstandard":
        import zstandard

        frames = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)
        return lambda plain: (frames.compress(plain),)
    raise BadOption(f"{codec!r} is not a codec of Avro files", hint=f"choose one of {', '.join(CODECS)}")


def decompress_block(codec: str, block: bytes) -> Buffer:
    """Decompress a block. Raises `BadBlock`."""
    if codec == "null":
        return block
    try:
        if codec == "deflate":
            return _inflated(block)
        if codec == "snappy" and len(block) > _CRC.size:
            return _checked(decompress(SNAPPY, memoryview(block)[: -_CRC.size], max_bytes=MAX_BLOCK_BYTES), block)
        if codec == "zstandard":
            return decompress(ZSTD, block, max_bytes=MAX_BLOCK_BYTES)
    except (DamagedBatch, zlib.error) as error:
        raise BadBlock(str(error)) from error
    raise BadBlock(f"no block of codec {codec!r}")


def _checked(plain: Buffer, block: bytes) -> Buffer:
    if zlib.crc32(plain) != _CRC.unpack_from(block, len(block) - _CRC.size)[0]:
        raise BadBlock("fails its CRC32")
    return plain


def _inflated(block: bytes) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    plain = inflater.decompress(block, MAX_BLOCK_BYTES + 1)
    if len(plain) > MAX_BLOCK_BYTES:
        raise BadBlock(f"decompresses to more than {MAX_BLOCK_BYTES} bytes")
    if not inflater.eof:
        raise BadBlock("the stream is truncated")
    return plain
