"""The five codecs of RecordBatch bodies, as the Java client and librdkafka write and read them.

Owns the bytes between "compressed" and "plain"; knows nothing of records. Output is bounded: a damaged or hostile batch
cannot take the memory of a worker. Formats: gzip RFC 1952, snappy raw and in xerial's framing (written by the Java
client), LZ4 frame 1.6 (KIP-57), zstd RFC 8878 (KIP-110).
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import cramjam
import zstandard

from offsite.log import zstd_frames
from offsite.log.buffer import Buffer
from offsite.model.bounds import TooLargeError, check_room
from offsite.model.errors import DamagedBatch
from offsite.model.units import KIB, MIB

LZ4_UNREADABLE = (cramjam.DecompressionError, struct.error)
"""Errors of `expand_lz4` for bytes that are not LZ4, or are cut."""

_LZ4_MAGIC = 0x184D2204
_SKIPPABLE, _SKIPPABLE_MASK = 0x184D2A50, 0xFFFF_FFF0
_LZ4_BLOCK_BYTES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
_LZ4_FLAGS = 0x25  # independent blocks, content checksum, dictionary id
_LZ4_SIMPLE = 0x20
_LZ4_SIZE = struct.Struct("<I")
_LZ4_SIZE_BITS = 0x7FFF_FFFF
_LZ4_STORED = 0x80  # in the last byte of a size: the block is stored as it was

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
MAX_PLAIN_BYTES = 448 * MIB
"""Most bytes of one batch after decompression: far above any real batch. Twice as many bytes (the body, and one record
as large as the body) fit into the memory of a worker. Below `MAX_EXPANDED_BYTES`."""
# The speed matters more than the last percent: only batches that cannot be copied as they are get compressed here.
_GZIP_LEVEL, _LZ4_LEVEL, _ZSTD_LEVEL = 6, 1, 3
_GZIP_WRAPPER = 16 + zlib.MAX_WBITS
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_BLOCK_BYTES = 32 * 1024  # what the Java client writes
_GZIP_STEP_BYTES = 16 * MIB
_GZIP_NEXT_BYTES = 4 * KIB
"""Bytes of the rest given to the second gzip member and to all members behind: zlib copies what a member leaves
unread."""

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)


class _Lz4Frame(NamedTuple):
    """The header of a frame. `is_simple`: independent blocks, and no data behind the blocks. Checksums of blocks are
    not verified: the CRC32C of a batch covers the same bytes."""

    is_simple: bool
    block_bytes: int
    blocks_start: int
    block_checksum_bytes: int
    tail_bytes: int
    """Bytes behind the blocks: the end mark, and maybe a checksum."""


class _BlockBuffer(threading.local):
    """A buffer for one block, for every thread: a new buffer takes as long as a batch of 16 KiB."""

    def __init__(self) -> None:
        self._block = memoryview(b"")

    def block(self, size_bytes: int) -> memoryview:
        """A buffer of `size_bytes`, at most 4 MiB."""
        if len(self._block) < size_bytes:
            self._block = memoryview(bytearray(size_bytes))
        return self._block[:size_bytes]


_block_buffer = _BlockBuffer()


def expand_lz4(data: Buffer, *, max_bytes: int) -> bytearray:
    """The plain bytes of all frames, at least one frame. Raises `TooLargeError` for more than `max_bytes`, after at
    most one block too many, and `LZ4_UNREADABLE`.

    Independent blocks are expanded block by block, without the frame decoder, whose set-up takes as long as 16 KiB. All
    frames of another kind go through the decoder. The decoder has no limit of its own, and writes into a buffer as
    large as the blocks can hold.
    """
    remaining, plain = memoryview(data), bytearray()
    while True:
        (magic,) = _LZ4_SIZE.unpack_from(remaining)
        if magic & _SKIPPABLE_MASK == _SKIPPABLE:
            end = 2 * _LZ4_SIZE.size + _LZ4_SIZE.unpack_from(remaining, _LZ4_SIZE.size)[0]
        else:
            end = _take_frame(remaining, _frame(magic, remaining), plain, max_bytes)
        if end >= len(remaining):
            return plain
        remaining = remaining[end:]


def _take_frame(data: memoryview, frame: _Lz4Frame, plain: bytearray, max_bytes: int) -> int:
    """Append the plain bytes of the first frame to `plain`. Returns the end position of the frame."""
    position, blocks = frame.blocks_start, 0
    room, unpack_from = _block_buffer.block(frame.block_bytes), _LZ4_SIZE.unpack_from
    while size := unpack_from(data, position)[0] & _LZ4_SIZE_BITS:
        if frame.is_simple:
            plain += _block_plain(data[position : position + _LZ4_SIZE.size + size], room)
            check_room(len(plain), max_bytes)
        position += _LZ4_SIZE.size + size + frame.block_checksum_bytes
        blocks += 1
    end = position + frame.tail_bytes
    if not frame.is_simple:
        plain += _linked_plain(data[:end], blocks * frame.block_bytes, max_bytes - len(plain))
        check_room(len(plain), max_bytes)
    return end


def _frame(magic: int, data: memoryview) -> _Lz4Frame:
    flags, descriptor = struct.unpack_from("<BB", data, _LZ4_SIZE.size)
    block_bytes = _LZ4_BLOCK_BYTES.get(descriptor >> 4 & 7)
    if magic != _LZ4_MAGIC or block_bytes is None:
        raise cramjam.DecompressionError("no frame header")
    return _Lz4Frame(
        is_simple=flags & _LZ4_FLAGS == _LZ4_SIMPLE,
        block_bytes=block_bytes,
        blocks_start=7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0),  # content size, dictionary id
        block_checksum_bytes=4 if flags & 0x10 else 0,
        tail_bytes=_LZ4_SIZE.size + (4 if flags & 0x04 else 0),
    )


def _block_plain(block: memoryview, room: memoryview) -> memoryview:
    if block[_LZ4_SIZE.size - 1] & _LZ4_STORED:
        return block[_LZ4_SIZE.size :]
    return room[: cramjam.lz4.decompress_block_into(block[_LZ4_SIZE.size :], room)]


def _linked_plain(frame: memoryview, blocks_bytes: int, left_bytes: int) -> memoryview:
    room = memoryview(bytearray(min(blocks_bytes, left_bytes + 1)))
    return room[: cramjam.lz4.decompress_into(frame, room)]


_UNREADABLE = (zlib.error, cramjam.DecompressionError, *LZ4_UNREADABLE, *zstd_frames.UNREADABLE)


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
    return expand_lz4(data, max_bytes=max_bytes)


def _read_zstd(data: memoryview, max_bytes: int) -> Buffer:
    """A streaming writer (the Java client's) does not record the plain size of a frame."""
    return zstd_frames.expand(data, max_bytes=max_bytes)


_READERS: dict[int, Callable[[memoryview, int], Buffer]] = {
    GZIP: _read_gzip,
    SNAPPY: _read_snappy,
    LZ4: _read_lz4,
    ZSTD: _read_zstd,
}
