"""Batches back out of a segment: read ahead in pieces, checked before they are handed on, seekable through the index.

Nothing damaged is yielded unnoticed: each batch has its CRC32C, each indexed frame one over all of its bytes, and a
segment that is read as a whole its hash. Memory: a few pieces of about 4 MiB, or one batch where that is larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import zstandard
from blake3 import blake3
from crc32c import crc32c

from offsite.log.batch import scan, verify_crc
from offsite.log.chunk import Chunk
from offsite.log.markers import Markers
from offsite.model.errors import Damaged, DamagedObject
from offsite.model.journal import warned
from offsite.model.size import MIB
from offsite.repository.segment import Compression, Segment
from offsite.repository.segment_body import HASH_NAME, content_hash
from offsite.repository.segment_index import SegmentIndex, decode_index, decode_markers
from offsite.repository.store import Store

_PIECE_BYTES = 4 * MIB
_READ_AHEAD = 3
"""Pieces under way at once: hides the latency of an object store, bounds the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Stored bytes `[start, end)` to read at once; `raw_crc` where they are one indexed frame."""

    start: int
    end: int
    raw_crc: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentReader:
    """Reads one segment that a commit lists."""

    store: Store
    segment: Segment

    def index(self, *, with_markers: bool = True) -> SegmentIndex:
        """Frames and transaction markers (40 bytes each); empty for a segment that needs no sidecar.

        Raises `DamagedObject` when the sidecar should be there and is not whole.
        """
        segment = self.segment
        if segment.index_key is None:
            return SegmentIndex(segment_key=segment.key, frames=())
        index = decode_index(self._index_data(), key=segment.index_key, with_markers=with_markers)
        if index.segment_key != segment.key:
            raise damaged_segment(segment, f"its index belongs to {index.segment_key}")
        return index

    def markers(self) -> Iterator[Markers]:
        """The index's markers alone, a part after the other, so that memory does not grow with them. Raises as
        `index`."""
        if self.segment.index_key is not None:
            yield from decode_markers(self._index_data(), key=self.segment.index_key)

    def chunks(self, *, start: int | None = None, end: int | None = None) -> Iterator[Chunk]:
        """The batches with a base offset in `[start, end)`, all by default, in order.

        The data of a chunk is writable, and the caller's to keep. Raises `DamagedObject` naming object, topic and
        range (a segment of one frame is checked before it is yielded, so is each indexed frame), and what the store
        raises. A damaged index costs the frames their early check, not the data: batches and object are still checked.
        """
        segment = self.segment
        low = segment.lowest_offset if start is None else start
        high = segment.end if end is None else end
        pieces = _plan(segment, self._frames(), low, high)
        whole = bool(pieces) and pieces[0].start == 0 and pieces[-1].end == segment.stored_bytes
        assembler = _Assembler(segment)
        for piece, stored in _fetched(self.store, segment, pieces):
            chunk = assembler.take(stored, piece.raw_crc)
            if whole and piece is pieces[-1]:
                assembler.check_whole()
            if (clipped := _clipped(chunk, low, high)).batches:
                yield clipped

    def _index_data(self) -> bytes:
        segment = self.segment
        data = self.store.get(str(segment.index_key))
        if data is None or content_hash(data) != segment.index_hash:
            problem = "is missing" if data is None else "does not have its recorded hash"
            raise damaged_segment(segment, f"its index {segment.index_key} {problem}")
        return data

    def _frames(self) -> SegmentIndex | None:
        try:
            index = self.index(with_markers=False)
        except DamagedObject as error:
            warned("index_unusable", key=self.segment.index_key, why=error.message)
            return None
        return index if index.frames else None


def damaged_segment(segment: Segment, problem: str) -> DamagedObject:
    return DamagedObject(
        f"{segment.key} ({segment.log_range}): {problem}",
        hint="run: offsite verify --deep, to see which restore points are affected; the rest stays restorable",
    )


def _plan(segment: Segment, index: SegmentIndex | None, low: int, high: int) -> list[_Piece]:
    """The pieces that can hold batches of `[low, high)`."""
    if low >= high:
        return []
    if index is None:
        size = segment.stored_bytes
        step = _PIECE_BYTES if segment.index_key else size  # without a sidecar it is one frame
        return [_Piece(start=at, end=min(at + step, size)) for at in range(0, size, step)]
    starts = [frame.stored_position for frame in index.frames]
    ends = [*starts[1:], segment.stored_bytes]
    first = index.frame_of(low)
    return [
        _Piece(start=starts[number], end=ends[number], raw_crc=frame.raw_crc)
        for number, frame in enumerate(index.frames)
        if number >= first and frame.first_offset < high
    ]


def _fetched(store: Store, segment: Segment, pieces: Sequence[_Piece]) -> Iterator[tuple[_Piece, bytes]]:
    """The pieces with their bytes, a few of them read ahead."""

    def fetch(piece: _Piece) -> bytes:
        data = store.get_range(segment.key, piece.start, piece.end - piece.start)
        if data is None:
            raise damaged_segment(segment, "the object is missing")
        if len(data) != piece.end - piece.start:
            raise damaged_segment(segment, f"the object is cut at byte {piece.start + len(data)}")
        return data

    if len(pieces) == 1:
        yield pieces[0], fetch(pieces[0])
        return
    pool = ThreadPoolExecutor(max_workers=_READ_AHEAD, thread_name_prefix="read-segment")
    try:
        under_way = [pool.submit(fetch, piece) for piece in pieces[:_READ_AHEAD]]
        for number, piece in enumerate(pieces):
            data = under_way.pop(0).result()
            if number + _READ_AHEAD < len(pieces):
                under_way.append(pool.submit(fetch, pieces[number + _READ_AHEAD]))
            yield piece, data
    finally:
        # Never waits: a reader that is dropped half-way may be collected where waiting for a thread hangs the process.
        pool.shutdown(wait=False, cancel_futures=True)


class _Assembler:
    """Turns the stored bytes of consecutive pieces into whole, checked batches."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._hasher = blake3()
        self._expand = _expander(segment.compression)
        self._rest = b""
        self._batches = 0
        self._next_offset = segment.lowest_offset

    def take(self, stored: bytes, raw_crc: int | None) -> Chunk:
        """All batches that are whole with this piece; an indexed piece (`raw_crc`) must end with one."""
        self._hasher.update(stored)
        try:
            data = memoryview(bytearray(self._rest) + self._expand(stored))
            if raw_crc is not None and crc32c(data) != raw_crc:
                raise damaged_segment(self._segment, f"the frame at offset {self._next_offset} fails its CRC32C")
            batches = scan(data)
            verify_crc(data, batches)
        except (Damaged, zstandard.ZstdError) as error:
            raise damaged_segment(self._segment, str(error)) from error
        end = batches[-1].end_position if batches else 0
        self._rest = bytes(data[end:])
        if raw_crc is not None and self._rest:
            raise damaged_segment(self._segment, "a frame ends inside a batch")
        if batches:
            self._check_follows(batches[0].base_offset, batches[-1].base_offset)
            self._next_offset = batches[-1].next_offset
        self._batches += len(batches)
        return Chunk(data=data, batches=batches)

    def check_whole(self) -> None:
        """After the last piece of a segment that was read from its first byte."""
        segment = self._segment
        if f"{HASH_NAME}:{self._hasher.hexdigest()}" != segment.hash:
            raise damaged_segment(segment, "the object does not have its recorded hash")
        if self._rest or (self._batches, self._next_offset) != (segment.batches, segment.last_offset + 1):
            raise damaged_segment(segment, f"it holds {self._batches} batches to offset {self._next_offset}")

    def _check_follows(self, first_base: int, last_base: int) -> None:
        if first_base < self._next_offset or last_base >= self._segment.end:
            raise damaged_segment(self._segment, f"batches {first_base} to {last_base} are out of place")


def _expander(compression: Compression) -> Callable[[bytes], bytes]:
    if compression is Compression.NONE:
        return bytes
    return zstandard.ZstdDecompressor().decompressobj(read_across_frames=True).decompress


def _clipped(chunk: Chunk, low: int, high: int) -> Chunk:
    batches = chunk.batches
    if batches and (batches[0].base_offset < low or batches[-1].base_offset >= high):
        batches = [header for header in batches if low <= header.base_offset < high]
    return Chunk(data=chunk.data, batches=batches)
