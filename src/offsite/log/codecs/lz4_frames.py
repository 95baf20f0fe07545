"""Expands LZ4 frames into plain bytes, up to a limit. Format: LZ4 frame 1.6 (KIP-57).

Independent blocks are expanded block by block, without the frame decoder: its set-up takes as long as 16 KiB. All
frames of another kind go through the decoder. The decoder has no limit of its own, and writes into a buffer as large as
the blocks can hold.
"""

from __future__ import annotations

import struct
import threading
from typing import NamedTuple

import cramjam

from offsite.log.buffer import Buffer
from offsite.log.codecs.room import check_room

__all__ = ["UNREADABLE", "expand"]

UNREADABLE = (cramjam.DecompressionError, struct.error)
"""Errors of `expand` for bytes that are not LZ4, or are cut."""

_MAGIC = 0x184D2204
_SKIPPABLE, _SKIPPABLE_MASK = 0x184D2A50, 0xFFFF_FFF0
_BLOCK_BYTES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
_FLAGS = 0x25  # independent blocks, content checksum, dictionary id
_SIMPLE = 0x20
_SIZE = struct.Struct("<I")
_SIZE_BITS = 0x7FFF_FFFF
_STORED = 0x80  # in the last byte of a size: the block is stored as it was


class _Frame(NamedTuple):
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


def expand(data: Buffer, *, max_bytes: int) -> bytearray:
    """The plain bytes of all frames, at least one frame. Raises `TooLargeError` for more than `max_bytes`, after at
    most one block too many, and `UNREADABLE`."""
    remaining, plain = memoryview(data), bytearray()
    while True:
        (magic,) = _SIZE.unpack_from(remaining)
        if magic & _SKIPPABLE_MASK == _SKIPPABLE:
            end = 2 * _SIZE.size + _SIZE.unpack_from(remaining, _SIZE.size)[0]
        else:
            end = _take_frame(remaining, _frame(magic, remaining), plain, max_bytes)
        if end >= len(remaining):
            return plain
        remaining = remaining[end:]


def _take_frame(data: memoryview, frame: _Frame, plain: bytearray, max_bytes: int) -> int:
    """Append the plain bytes of the first frame to `plain`. Returns the end position of the frame."""
    position, blocks = frame.blocks_start, 0
    room, unpack_from = _block_buffer.block(frame.block_bytes), _SIZE.unpack_from
    while size := unpack_from(data, position)[0] & _SIZE_BITS:
        if frame.is_simple:
            plain += _block_plain(data[position : position + _SIZE.size + size], room)
            check_room(len(plain), max_bytes)
        position += _SIZE.size + size + frame.block_checksum_bytes
        blocks += 1
    end = position + frame.tail_bytes
    if not frame.is_simple:
        plain += _linked_plain(data[:end], blocks * frame.block_bytes, max_bytes - len(plain))
        check_room(len(plain), max_bytes)
    return end


def _frame(magic: int, data: memoryview) -> _Frame:
    flags, descriptor = struct.unpack_from("<BB", data, _SIZE.size)
    block_bytes = _BLOCK_BYTES.get(descriptor >> 4 & 7)
    if magic != _MAGIC or block_bytes is None:
        raise cramjam.DecompressionError("no frame header")
    return _Frame(
        is_simple=flags & _FLAGS == _SIMPLE,
        block_bytes=block_bytes,
        blocks_start=7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0),  # content size, dictionary id
        block_checksum_bytes=4 if flags & 0x10 else 0,
        tail_bytes=_SIZE.size + (4 if flags & 0x04 else 0),
    )


def _block_plain(block: memoryview, room: memoryview) -> memoryview:
    if block[_SIZE.size - 1] & _STORED:
        return block[_SIZE.size :]
    return room[: cramjam.lz4.decompress_block_into(block[_SIZE.size :], room)]


def _linked_plain(frame: memoryview, blocks_bytes: int, left_bytes: int) -> memoryview:
    room = memoryview(bytearray(min(blocks_bytes, left_bytes + 1)))
    return room[: cramjam.lz4.decompress_into(frame, room)]
