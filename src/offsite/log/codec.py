"""The five codecs of RecordBatch bodies, as the Java client and librdkafka write and read them.

Owns the bytes between "compressed" and "plain"; knows nothing of records. Output is bounded, so that a damaged or
hostile batch cannot take the memory of a worker. Formats: gzip RFC 1952, snappy raw and in xerial's framing (written by
the Java client), LZ4 frame (KIP-57), zstd RFC 8878 (KIP-110).
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import cramjam
import zstandard

from offsite.log.buffer import Buffer
from offsite.model.errors import DamagedBatch

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

MAX_PLAIN_BYTES = 1 << 30
"""Most bytes one batch may decompress to: far above any real batch, below what would take a worker down."""

# The speed matters more than the last percent: only batches that cannot be copied as they are get compressed here.
_GZIP_LEVEL, _LZ4_LEVEL, _ZSTD_LEVEL = 6, 1, 3
_GZIP_WRAPPER = 16 + zlib.MAX_WBITS
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024  # what the Java client writes
_LZ4_MAGIC = 0x184D2204
_LZ4_BLOCK_BYTES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
_LZ4_FLAGS = 0x25  # independent blocks, content checksum, dictionary id
_LZ4_SIMPLE = 0x20
_ZSTD_BLOCK_BYTES = 128 << 10
_ZSTD_RLE_BLOCK = 1  # one byte, repeated


def compress(codec: int, plain: Buffer) -> Buffer:
    """`plain` in that codec, even if that makes it larger. Raises `DamagedBatch` if there is no such codec."""
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

    Raises `DamagedBatch` if the bytes are not in that codec, or would grow beyond `max_bytes`.
    """
    if codec == NONE:
        return data
    if codec not in _READERS:
        raise DamagedBatch(f"there is no codec {codec}")
    try:
        return _READERS[codec](memoryview(data), max_bytes)
    except (zlib.error, cramjam.DecompressionError, zstandard.ZstdError, struct.error) as error:
        raise DamagedBatch(f"not {CODEC_NAMES[codec]}: {error}") from error


def _read_gzip(data: memoryview, max_bytes: int) -> bytes:
    """All members of the stream, as Java's GZIPInputStream reads them."""
    members: list[bytes] = []
    room, rest = max_bytes, data
    while rest or not members:
        inflater = zlib.decompressobj(_GZIP_WRAPPER)
        members.append(inflater.decompress(rest, room + 1))
        room -= len(members[-1])
        _check_room(room, max_bytes)
        if not inflater.eof:
            raise DamagedBatch("not gzip: the stream is cut")
        rest = memoryview(inflater.unused_data)
    return b"".join(members)


def _compress_xerial(plain: Buffer) -> bytes:
    view, parts = memoryview(plain), [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)


def _read_snappy(data: memoryview, max_bytes: int) -> bytearray:
    """Raw blocks are librdkafka's way, xerial's framing is the Java client's: the magic tells them apart."""
    framed = data[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC
    blocks = list(_xerial_blocks(data)) if framed else [data]
    sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
    _check_room(max_bytes - sum(sizes), max_bytes)
    plain, position = bytearray(sum(sizes)), 0
    view = memoryview(plain)
    for block, size in zip(blocks, sizes, strict=True):
        cramjam.snappy.decompress_raw_into(block, view[position : position + size])
        position += size
    return plain


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    position = len(_XERIAL_HEADER)
    if len(data) < position:
        raise DamagedBatch("not snappy: the header is cut")
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
    compressor.compress(bytes(plain))  # it takes nothing else
    return bytes(compressor.finish())


class _Lz4Frame(NamedTuple):
    """What a frame says of itself. `is_simple`: independent blocks and nothing behind them. They may have checksums,
    but the CRC32C of a batch covers the same bytes."""

    is_simple: bool
    block_bytes: int
    blocks: list[memoryview]
    """Each with its size word, whose highest bit is set where the block is stored as it was."""


def _read_lz4(data: memoryview, max_bytes: int) -> bytes:
    """The blocks one by one where they allow it: setting up the decoder of frames takes as long as 16 KiB."""
    frame = _lz4_frame(data)
    _check_room(max_bytes - len(frame.blocks) * frame.block_bytes, max_bytes)
    if not frame.is_simple:
        return bytes(cramjam.lz4.decompress(data))
    room = _workplace.lz4_block(frame.block_bytes)
    parts = [_lz4_plain(block, room) for block in frame.blocks]
    return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)


def _lz4_plain(block: memoryview, room: memoryview) -> memoryview | bytes:
    if block[3] & 0x80:
        return block[4:]
    return room[: cramjam.lz4.decompress_block_into(block[4:], room)].tobytes()


def _lz4_frame(data: memoryview) -> _Lz4Frame:
    """Frames are taken apart before the decoder, which has no limit, sees them: none grows beyond its blocks."""
    magic, flags, descriptor = struct.unpack_from("<IBB", data, 0)
    block_bytes = _LZ4_BLOCK_BYTES.get(descriptor >> 4 & 7)
    if magic != _LZ4_MAGIC or block_bytes is None:
        raise DamagedBatch("not lz4: no frame header")
    position = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)  # content size, dictionary id
    checksum_bytes = 4 if flags & 0x10 else 0
    blocks: list[memoryview] = []
    while size := struct.unpack_from("<I", data, position)[0] & 0x7FFF_FFFF:
        blocks.append(data[position : position + 4 + size])
        position += 4 + size + checksum_bytes
    is_simple = flags & _LZ4_FLAGS == _LZ4_SIMPLE and position + 4 == len(data)
    return _Lz4Frame(is_simple, block_bytes, blocks)


def _read_zstd(data: memoryview, max_bytes: int) -> bytes:
    """All frames. A streaming writer (the Java client's) does not say how large its frame becomes."""
    frames: list[bytes] = []
    room, rest = max_bytes, data
    while rest or not frames:
        _check_room(room - _zstd_limit(rest), max_bytes)
        frame = _workplace.zstd.decompressobj()
        frames.append(frame.decompress(rest))
        room -= len(frames[-1])
        if not frame.eof:
            raise DamagedBatch("not zstd: the frame is cut")
        rest = memoryview(frame.unused_data)
    return frames[0] if len(frames) == 1 else b"".join(frames)


class _Workplace(threading.local):
    """What decoders work with, one for each thread: making it anew takes as long as a batch of 16 KiB."""

    def __init__(self) -> None:
        self.zstd = zstandard.ZstdDecompressor()
        self._lz4_block = memoryview(b"")

    def lz4_block(self, size_bytes: int) -> memoryview:
        """Room for one block of that size, which is at most 4 MiB."""
        if len(self._lz4_block) < size_bytes:
            self._lz4_block = memoryview(bytearray(size_bytes))
        return self._lz4_block[:size_bytes]


_workplace = _Workplace()


def _zstd_limit(data: memoryview) -> int:
    """The size the first frame declares, or else the most that its blocks can grow to."""
    frame = zstandard.get_frame_parameters(data)
    if frame.content_size != zstandard.CONTENTSIZE_UNKNOWN:
        return frame.content_size
    position, blocks, is_last = zstandard.frame_header_size(data), 0, 0
    while not is_last:
        low, high = struct.unpack_from("<HB", data, position)
        block = low | high << 16
        is_last, kind, size = block & 1, block >> 1 & 3, block >> 3
        position += 3 + (1 if kind == _ZSTD_RLE_BLOCK else size)
        blocks += 1
    return blocks * _ZSTD_BLOCK_BYTES


def _check_room(room: int, max_bytes: int) -> None:
    if room < 0:
        raise DamagedBatch(f"a batch decompresses to more than {max_bytes} bytes")


_READERS: dict[int, Callable[[memoryview, int], Buffer]] = {
    GZIP: _read_gzip,
    SNAPPY: _read_snappy,
    LZ4: _read_lz4,
    ZSTD: _read_zstd,
}
