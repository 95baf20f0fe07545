"""The five codecs of RecordBatch bodies, as the Java client and librdkafka write and read them.

Owns the bytes between "compressed" and "plain"; knows nothing of records. Output is bounded: a damaged or hostile batch
cannot take the memory of a worker. Formats: gzip RFC 1952, snappy raw and in xerial's framing (written by the Java
client), LZ4 frame (KIP-57), zstd RFC 8878 (KIP-110).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

import cramjam
import zstandard

from offsite.log.buffer import Buffer
from offsite.log.codecs import lz4_frames, zstd_frames
from offsite.log.codecs.room import TooLargeError, check_room
from offsite.model.errors import DamagedBatch
from offsite.model.size import KIB, MIB

__all__ = [
    "CODEC_NAMES",
    "GZIP",
    "LZ4",
    "MAX_PLAIN_BYTES",
    "NONE",
    "SNAPPY",
    "ZSTD",
    "compress",
    "decompress",
]

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

MAX_PLAIN_BYTES = 448 * MIB
"""Most bytes of one batch after decompression: far above any real batch. Twice as many bytes (the body, and one record
as large as the body) fit into the memory of a worker. Below `MAX_EXPANDED_BYTES`."""

# The speed matters more than the last percent: only batches that cannot be copied as they are get compressed here.
_GZIP_LEVEL, _LZ4_LEVEL, _ZSTD_LEVEL = 6, 1, 3
_GZIP_WRAPPER = 16 + zlib.MAX_WBITS
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024  # what the Java client writes
_GZIP_STEP_BYTES = 16 * MIB
_GZIP_NEXT_BYTES = 4 * KIB
"""Bytes of the rest given to the second gzip member and to all members behind: zlib copies what a member leaves
unread."""

_UNREADABLE = (zlib.error, cramjam.DecompressionError, *lz4_frames.UNREADABLE, *zstd_frames.UNREADABLE)


def compress(codec: int, plain: Buffer) -> Buffer:
    """The bytes of `plain` in the codec, even if the result is larger. Raises `DamagedBatch` for an unknown codec."""
    if codec == NONE:
        return plain
    if codec == GZIP:
        return zlib.compress(plain, _GZIP_LEVEL, _GZIP_WRAPPER)
    if codec == SNAPPY:
        return _compress_xerial(plain)
    if codec == LZ4:
        return _compress_lz4(plain)
    if codec == ZSTD:
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(plain)
    raise DamagedBatch(f"there is no codec {codec}")


def decompress(codec: int, data: Buffer, *, max_bytes: int = MAX_PLAIN_BYTES) -> Buffer:
    """The plain bytes of a batch body; `data` itself for codec 0.

    Raises `DamagedBatch` if the bytes are not in the codec, or would grow beyond `max_bytes`.
    """
    if codec == NONE:
        return data
    if codec not in _READERS:
        raise DamagedBatch(f"there is no codec {codec}")
    try:
        return _READERS[codec](memoryview(data), max_bytes)
    except TooLargeError as error:
        raise DamagedBatch(f"a batch of {len(data)} bytes: {error}") from error
    except _UNREADABLE as error:
        raise DamagedBatch(f"not {CODEC_NAMES[codec]}: {error}") from error


def _read_gzip(data: memoryview, max_bytes: int) -> bytearray:
    """All members of the stream, as Java's GZIPInputStream reads them."""
    plain, position, step = bytearray(), 0, len(data)
    while True:
        position = _take_member(data, position, step, plain, max_bytes)
        if position == len(data):
            return plain
        step = _GZIP_NEXT_BYTES


def _take_member(data: memoryview, position: int, step: int, plain: bytearray, max_bytes: int) -> int:
    """Append the plain bytes of the gzip member at `position` to `plain`. Returns the end position of the member."""
    inflater = zlib.decompressobj(_GZIP_WRAPPER)
    while not inflater.eof:
        chunk: Buffer = inflater.unconsumed_tail
        if not chunk:
            chunk, position = data[position : position + step], min(position + step, len(data))
            if not chunk:
                raise DamagedBatch("not gzip: the stream is truncated")
        plain += inflater.decompress(chunk, _GZIP_STEP_BYTES)
        check_room(len(plain), max_bytes)
    return position - len(inflater.unused_data)


def _compress_xerial(plain: Buffer) -> bytes:
    view, parts = memoryview(plain), [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)


def _read_snappy(data: memoryview, max_bytes: int) -> bytearray:
    """Raw blocks come from librdkafka, xerial's framing from the Java client: the magic tells the formats apart."""
    framed = data[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC
    total = 0
    for block in _xerial_blocks(data) if framed else (data,):
        total += cramjam.snappy.decompress_raw_len(block)
        check_room(total, max_bytes)
    plain, position = bytearray(total), 0
    view = memoryview(plain)
    for block in _xerial_blocks(data) if framed else (data,):
        position += cramjam.snappy.decompress_raw_into(block, view[position:])
    return plain


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    position = len(_XERIAL_HEADER)
    if len(data) < position:
        raise DamagedBatch("not snappy: the header is truncated")
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if not 0 <= size <= len(data) - position:
            raise DamagedBatch("not snappy: a block reaches past the batch")
        yield data[position : position + size]
        position += size


def _compress_lz4(plain: Buffer) -> bytes:
    """Independent blocks: Kafka's Java reader refuses linked ones (KIP-57)."""
    compressor = cramjam.lz4.Compressor(level=_LZ4_LEVEL, content_checksum=False, block_linked=False)
    compressor.compress(bytes(plain))  # cramjam accepts no other type
    return bytes(compressor.finish())


def _read_lz4(data: memoryview, max_bytes: int) -> bytearray:
    return lz4_frames.expand(data, max_bytes=max_bytes)


def _read_zstd(data: memoryview, max_bytes: int) -> Buffer:
    """A streaming writer (the Java client's) does not record the plain size of a frame."""
    return zstd_frames.expand(data, max_bytes=max_bytes)


_READERS: dict[int, Callable[[memoryview, int], Buffer]] = {
    GZIP: _read_gzip,
    SNAPPY: _read_snappy,
    LZ4: _read_lz4,
    ZSTD: _read_zstd,
}
