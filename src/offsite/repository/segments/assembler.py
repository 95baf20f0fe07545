"""Assembles the stored bytes of a segment into whole, checked batches, within the bounds given by the commit and the
index.

The writer of the bytes may be wrong or hostile: a kilobyte of zstd can expand to gigabytes. So a frame is expanded only
to the size given by the index. An object without an index is expanded only after its hash was found right. With a lost
index the object is expanded portion by portion. The carry-over never exceeds the largest batch named by the commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import zstandard
from blake3 import blake3
from crc32c import crc32c

from offsite.log import zstd_frames
from offsite.log.batch import scan, verify_crc
from offsite.log.range import Chunk
from offsite.model.bounds import MAX_EXPANDED_BYTES, TooLargeError
from offsite.model.errors import Damaged, DamagedObject
from offsite.model.units import MIB
from offsite.repository.segments.body import HASH_NAME
from offsite.repository.segments.segment import Compression, Segment

PIECE_BYTES = 4 * MIB
_PORTION_BYTES = 512
"""Of zstd without an index: at most 128 blocks, which expand to 16 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBytes:
    """Stored bytes `[start, end)`, read at once. With an index: one frame of `raw_bytes`, with the frame's CRC32C.
    Without: None, bytes from an unknown place."""

    start: int
    end: int
    raw_bytes: int | None = None
    raw_crc: int | None = None


def damaged_segment(segment: Segment, problem: str) -> DamagedObject:
    return DamagedObject(
        f"{segment.key} ({segment.log_range}): {problem}",
        hint="run offsite verify --deep to see the affected restore points; the others stay restorable",
    )


class Assembler:
    """Takes consecutive pieces. `whole`: the pieces are the whole segment."""

    def __init__(self, segment: Segment, *, whole: bool) -> None:
        self._segment = segment
        self._whole = whole
        self._hasher = blake3()
        self._stream = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
        self._rest = bytearray()
        self._raw_bytes = 0
        self._batches = 0
        self._next_offset = segment.lowest_offset

    def take(self, stored: bytes, piece: StoredBytes) -> Iterator[Chunk]:
        """All batches completed by this piece; a frame with a CRC must end with a batch. Raises `DamagedObject`."""
        self._hasher.update(stored)
        is_last = self._whole and piece.end == self._segment.stored_bytes
        if is_last and piece.start == 0:
            self._check_hash()
        try:
            for data, is_end in self._plain(stored, piece):
                if (chunk := self._chunk(data, piece.raw_crc, is_last=is_last and is_end)) is not None:
                    yield chunk
        except (Damaged, TooLargeError, *zstd_frames.UNREADABLE) as error:
            if isinstance(error, DamagedObject):
                raise
            raise damaged_segment(self._segment, str(error)) from error

    def _plain(self, stored: bytes, piece: StoredBytes) -> Iterator[tuple[bytes | bytearray, bool]]:
        """The raw bytes of the piece, in one or several parts, each with whether the piece ends with the part."""
        if self._segment.compression is Compression.NONE:
            yield stored, True
        elif piece.raw_bytes is not None:
            yield zstd_frames.expand(stored, max_bytes=piece.raw_bytes), True
        else:
            yield from self._streamed(stored)

    def _streamed(self, stored: bytes) -> Iterator[tuple[bytes | bytearray, bool]]:
        part = bytearray()
        for start in range(0, len(stored), _PORTION_BYTES):
            part += self._stream.decompress(stored[start : start + _PORTION_BYTES])
            if len(part) >= PIECE_BYTES:
                yield part, False
                part = bytearray()
        yield part, True

    def _chunk(self, plain: bytes | bytearray, raw_crc: int | None, *, is_last: bool) -> Chunk | None:
        """The complete batches so far; None if there are none."""
        self._take_raw(plain)
        data = memoryview(self._rest)
        if raw_crc is not None and crc32c(data) != raw_crc:
            raise damaged_segment(self._segment, f"the frame at offset {self._next_offset} fails its CRC32C")
        batches = scan(data)
        verify_crc(data, batches)
        end = batches[-1].end_position if batches else 0
        self._check_rest(len(data) - end, has_ended=raw_crc is not None)
        if batches:
            self._check_follows(batches[0].base_offset, batches[-1].base_offset)
            self._next_offset = batches[-1].next_offset
            self._batches += len(batches)
        if is_last:
            self._check_whole(len(data) - end)
        if not batches:
            data.release()
            return None
        self._rest = bytearray(data[end:])
        return Chunk(data=data, batches=batches)

    def _take_raw(self, plain: bytes | bytearray) -> None:
        self._raw_bytes += len(plain)
        if self._raw_bytes > self._segment.raw_bytes:
            raise damaged_segment(self._segment, f"it has more than {self._segment.raw_bytes} bytes")
        if self._rest or not isinstance(plain, bytearray):
            self._rest += plain
        else:
            self._rest = plain

    def _check_rest(self, rest_bytes: int, *, has_ended: bool) -> None:
        """The carry-over must be a part of one batch, and empty after an indexed frame."""
        if rest_bytes and has_ended:
            raise damaged_segment(self._segment, "a frame ends inside a batch")
        if rest_bytes and rest_bytes >= min(self._segment.largest_batch_bytes, MAX_EXPANDED_BYTES):
            raise damaged_segment(
                self._segment,
                f"the batch at offset {self._next_offset} is larger than the largest batch of the segment",
            )

    def _check_hash(self) -> None:
        if f"{HASH_NAME}:{self._hasher.hexdigest()}" != self._segment.hash:
            raise damaged_segment(self._segment, "the object does not have its recorded hash")

    def _check_whole(self, rest_bytes: int) -> None:
        self._check_hash()
        segment = self._segment
        if rest_bytes or (self._batches, self._next_offset) != (segment.batches, segment.last_offset + 1):
            raise damaged_segment(segment, f"it has {self._batches} batches up to offset {self._next_offset}")

    def _check_follows(self, first_base: int, last_base: int) -> None:
        if first_base < self._next_offset or last_base >= self._segment.end:
            raise damaged_segment(self._segment, f"batches {first_base} to {last_base} are out of place")
