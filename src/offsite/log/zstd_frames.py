"""Expands zstd frames into plain bytes, up to a limit, whatever size the frames state.

A frame may state any size, or none, and a kilobyte can hold a gigabyte; zstandard believes the stated size. No frame
can lie about the number of its blocks, of at most 128 KiB plain. A few blocks are expanded at once, many in portions,
with a check of the limit after every portion. Format: RFC 8878.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

import zstandard

from offsite.log.buffer import Buffer
from offsite.model.bounds import check_room
from offsite.model.units import KIB

_RLE_BLOCK = 1  # one byte, repeated
_PORTION_BLOCKS = 128
_PORTION_BYTES = _PORTION_BLOCKS * 128 * KIB
"""Bytes expanded at once: nearly every batch, and every frame of a segment, is one portion."""
_BLOCK = struct.Struct("<HB")
_CHECKSUM_BYTES = 4
_SKIPPABLE, _SKIPPABLE_MASK = 0x50, 0xF0  # the first byte of a frame without data for us
_SKIPPABLE_HEADER = struct.Struct("<II")

UNREADABLE = (zstandard.ZstdError, struct.error)
"""Errors of `expand` for bytes that are not zstd, or are cut."""


class _ThreadDecompressor(threading.local):
    """One decoder for every thread: a new decoder takes as long as a batch of 16 KiB."""

    def __init__(self) -> None:
        self.zstd = zstandard.ZstdDecompressor()


_decompressor = _ThreadDecompressor()


def expand(data: Buffer, *, max_bytes: int) -> bytes | bytearray:
    """The plain bytes of all frames, at least one frame. Raises `TooLargeError` for more than `max_bytes`, after at
    most 16 MiB too many, and `UNREADABLE`."""
    if 0 < zstandard.get_frame_parameters(data).content_size <= min(max_bytes, _PORTION_BYTES):
        with suppress(zstandard.ZstdError):  # more data than stated, or damage: see below
            return _decompressor.zstd.decompress(data, allow_extra_data=False)
    remaining, plain = memoryview(data), bytearray()
    while True:
        cuts = _cuts(remaining)
        for part in _parts(remaining, cuts):
            check_room(len(plain) + len(part), max_bytes)
            if cuts[0] == len(data):
                return part
            plain += part
        remaining = remaining[cuts[-1] :]
        if not remaining:
            return plain


def _parts(frame: memoryview, cuts: Sequence[int]) -> Iterator[bytes]:
    """The plain bytes of one frame, in parts that end at `cuts`."""
    expanding, start = _decompressor.zstd.decompressobj(), 0
    for end in cuts:
        part = expanding.decompress(frame[start:end])
        if end == cuts[-1] and not expanding.eof:
            raise zstandard.ZstdError("the frame is truncated")
        yield part
        start = end


def _cuts(data: memoryview) -> list[int]:
    """Positions to cut the first frame at. No part has more than `_PORTION_BLOCKS` blocks; the last position is the end
    of the frame."""
    about = zstandard.get_frame_parameters(data)
    if data[0] & _SKIPPABLE_MASK == _SKIPPABLE:
        return [_SKIPPABLE_HEADER.size + _SKIPPABLE_HEADER.unpack_from(data)[1]]
    unpack_from, position, is_last = _BLOCK.unpack_from, zstandard.frame_header_size(data), 0
    cuts: list[int] = []
    blocks = 0
    while not is_last:
        low, high = unpack_from(data, position)
        is_last, kind, size = low & 1, low >> 1 & 3, (low | high << 16) >> 3
        position += _BLOCK.size + (1 if kind == _RLE_BLOCK else size)
        blocks += 1
        if not blocks % _PORTION_BLOCKS and not is_last:
            cuts.append(position)
    cuts.append(position + (_CHECKSUM_BYTES if about.has_checksum else 0))
    return cuts
