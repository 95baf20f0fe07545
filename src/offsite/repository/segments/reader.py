"""Reads batches from a segment: read ahead in pieces, checked before they are yielded, seekable by the index.

Damage never passes unnoticed: each batch has its CRC32C, each indexed frame a CRC32C over all of its bytes, and a
segment read as a whole its hash. The writer of the bytes may be wrong or hostile: a kilobyte of zstd can expand to
gigabytes. So a frame is expanded only to the size given by the index. An object without an index is expanded only after
its hash was found right, and portion by portion. Memory: a few pieces of about 4 MiB, or one larger batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import zstandard
from blake3 import blake3
from crc32c import crc32c

from offsite.log import zstd_frames
from offsite.log.batch import scan, verify_crc
from offsite.log.markers import Markers
from offsite.log.range import Chunk
from offsite.log.transactions import OpenTransaction
from offsite.model.bounds import MAX_EXPANDED_BYTES, TooLargeError
from offsite.model.errors import Damaged, DamagedObject
from offsite.model.journal import warned
from offsite.model.units import MIB
from offsite.repository.segments.body import HASH_NAME, content_hash
from offsite.repository.segments.index import SegmentIndex, decode_index, decode_markers
from offsite.repository.segments.segment import Compression, Segment
from offsite.repository.segments.writer import FRAME_BYTES
from offsite.stores.store import Store

PIECE_BYTES = 4 * MIB
_PORTION_BYTES = 512
"""Of zstd without an index: at most 128 blocks, which expand to 16 MiB."""

MAX_FRAME_BYTES = FRAME_BYTES + MAX_EXPANDED_BYTES
"""Limit of a frame, including the batch that fills the frame."""
_MAX_STORED_BYTES = MAX_FRAME_BYTES + 1 * MIB  # incompressible data grows a little
_MAX_OBJECT_BYTES = 1 << 40
_READ_AHEAD = 3
"""Pieces requested at once: hides the latency of an object store, bounds the memory."""
_READ_AHEAD_BYTES = 16 * MIB
"""Larger pieces are read one by one."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentReader:
    """Reads one segment listed by a commit."""

    store: Store
    segment: Segment

    def index(self, *, with_markers: bool = True) -> SegmentIndex:
        """Frames and transaction markers (40 bytes each); empty for a segment without a sidecar.

        Raises `DamagedObject` if an expected sidecar is missing or damaged.
        """
        segment = self.segment
        if segment.index_key is None:
            return SegmentIndex(segment_key=segment.key, frames=())
        index = decode_index(self._index_data(), key=segment.index_key, with_markers=with_markers)
        body = segment.as_written
        if index.segment_key != segment.key:
            raise damaged_segment(segment, f"its index belongs to {index.segment_key}")
        last = index.frames[-1]
        if last.stored_position >= body.stored_bytes or last.raw_position >= body.raw_bytes:
            raise damaged_segment(segment, "its index lists more bytes than the object has")
        return index if segment.whole is None else _index_of_part(segment, index)

    def markers(self) -> Iterator[Markers]:
        """The index's markers alone, in parts, so memory does not grow with their number. Raises as `index`."""
        if self.segment.index_key is not None:
            for markers in decode_markers(self._index_data(), key=self.segment.index_key):
                yield markers if self.segment.whole is None else _markers_of_part(self.segment, markers)

    def chunks(self, *, start: int | None = None, end: int | None = None) -> Iterator[Chunk]:
        """The batches with a base offset in `[start, end)`, all by default, in order.

        The caller owns the data of a chunk and may write to it. Raises `DamagedObject` with object, topic and range
        (segments of one frame and indexed frames are checked before the yield), and errors of the store. With a damaged
        index the frames lose their early check, not their data: batches and object are still checked.
        """
        segment = self.segment
        low = segment.lowest_offset if start is None else start
        high = segment.end if end is None else end
        if segment.whole is not None:  # the object also holds batches of another history
            low, high = max(low, segment.lowest_offset), min(high, segment.end)
        body = segment.as_written
        pieces = _plan(body, self._frames(), low, high)
        whole = bool(pieces) and pieces[0].start == 0 and pieces[-1].end == segment.stored_bytes
        assembler = Assembler(body, whole=whole)
        for piece, stored in _fetched(self.store, segment, pieces):
            for chunk in assembler.take(stored, piece):
                if (clipped := _clipped(chunk, low, high)).batches:
                    yield clipped

    def _index_data(self) -> bytes:
        segment = self.segment
        if segment.pack is None:
            data = self.store.get(str(segment.index_key))
        else:
            data = self.store.get_range(segment.pack, segment.index_position, segment.index_bytes)
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


def _markers_of_part(segment: Segment, markers: Markers) -> Markers:
    return Markers(marker for marker in markers if segment.start <= marker.offset < segment.end)


def _index_of_part(segment: Segment, index: SegmentIndex) -> SegmentIndex:
    """The frames stay those of the object. A transaction decided after the part is open at the part's end."""
    opened = {
        transaction.producer_id: transaction
        for transaction in index.open or ()
        if transaction.first_offset < segment.end
    }
    for marker in index.markers:
        if marker.offset >= segment.end > marker.first_offset >= 0:
            opened.setdefault(
                marker.producer_id,
                OpenTransaction(
                    producer_id=marker.producer_id, first_offset=marker.first_offset, last_offset=segment.end - 1
                ),
            )
    return replace(index, markers=_markers_of_part(segment, index.markers), open=tuple(opened.values()))


def stored_markers(segments: Iterable[Segment], store: Store) -> Iterator[Markers]:
    """The transaction markers of consecutive segments, in parts, from the indexes alone. Segments without transactions
    cost nothing. Raises as `SegmentReader.markers`."""
    for segment in segments:
        if segment.has_transactions:
            yield from SegmentReader(store=store, segment=segment).markers()


def _plan(segment: Segment, index: SegmentIndex | None, low: int, high: int) -> list[StoredBytes]:
    """The pieces that may hold batches of `[low, high)`. Raises `DamagedObject` if a piece is larger than possible."""
    if low >= high:
        return []
    if index is not None:
        pieces = _frames(segment, index, low, high)
    elif segment.index_key is None:
        pieces = [StoredBytes(start=0, end=segment.stored_bytes, raw_bytes=segment.raw_bytes)]
    else:
        pieces = _blind_pieces(segment)
    for piece in pieces:
        if piece.end - piece.start > _MAX_STORED_BYTES or (piece.raw_bytes or 0) > MAX_FRAME_BYTES:
            raise damaged_segment(segment, f"a frame of {piece.end - piece.start} bytes, {piece.raw_bytes} expanded")
    return pieces


def _frames(segment: Segment, index: SegmentIndex, low: int, high: int) -> list[StoredBytes]:
    starts = [(frame.stored_position, frame.raw_position) for frame in index.frames]
    ends = [*starts[1:], (segment.stored_bytes, segment.raw_bytes)]
    first = index.frame_of(low)
    return [
        StoredBytes(start=start, end=end, raw_bytes=raw_end - raw_start, raw_crc=frame.raw_crc)
        for number, (frame, (start, raw_start), (end, raw_end)) in enumerate(
            zip(index.frames, starts, ends, strict=True)
        )
        if number >= first and frame.first_offset < high
    ]


def _blind_pieces(segment: Segment) -> list[StoredBytes]:
    size = segment.stored_bytes
    if size > _MAX_OBJECT_BYTES:
        raise damaged_segment(segment, f"an object of {size} bytes")
    return [StoredBytes(start=at, end=min(at + PIECE_BYTES, size)) for at in range(0, size, PIECE_BYTES)]


def _fetched(store: Store, segment: Segment, pieces: Sequence[StoredBytes]) -> Iterator[tuple[StoredBytes, bytes]]:
    """The pieces with their bytes, a few of them read ahead."""

    def fetch(piece: StoredBytes) -> bytes:
        data = store.get_range(segment.object_key, segment.position + piece.start, piece.end - piece.start)
        if data is None:
            raise damaged_segment(segment, "the object is missing")
        if len(data) != piece.end - piece.start:
            raise damaged_segment(segment, f"the object is truncated at byte {piece.start + len(data)}")
        return data

    if len(pieces) == 1 or any(piece.end - piece.start > _READ_AHEAD_BYTES for piece in pieces):
        for piece in pieces:
            yield piece, fetch(piece)
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
        # Never wait: the garbage collector may close a dropped reader where waiting for a thread hangs the process.
        pool.shutdown(wait=False, cancel_futures=True)


def _clipped(chunk: Chunk, low: int, high: int) -> Chunk:
    batches = chunk.batches
    if batches and (batches[0].base_offset < low or batches[-1].base_offset >= high):
        batches = [header for header in batches if low <= header.base_offset < high]
    return Chunk(data=chunk.data, batches=batches)
