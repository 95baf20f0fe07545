"""Writes the batches of one range into segments: streamed, hashed, indexed, rotated by size.

`OpenSegment` is one segment during writing: its object, its statistics, and the starts of its frames. A segment counts
only once listed by a commit. Before, the object is an orphan, open to collection.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self

from crc32c import crc32c

from offsite.log.batch import CODEC_MASK, CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.range import Chunk, LogRange
from offsite.log.stats import LogStats
from offsite.log.transactions import StretchTail, TailFold, TransactionIndexer
from offsite.model.errors import ObjectTaken, check
from offsite.model.ids import random_id
from offsite.model.options import CompressionChoice
from offsite.model.units import MIB
from offsite.repository.layout import BackupLayout, index_key
from offsite.repository.segments.body import content_hash, open_body, pays_off
from offsite.repository.segments.index import Frame, SegmentIndex, encode_index
from offsite.repository.segments.segment import NO_TIMESTAMP_MS, Compression, Segment
from offsite.stores.store import ObjectWriter, PutResult

FRAME_BYTES = 4 * MIB
"""Distance between seek points: small enough for seeking, large enough for zstd and for one ranged read."""

TARGET_SEGMENT_BYTES = 128 * MIB


class ObjectSink(Protocol):
    """Where segments are written: a store, or a pack in a store."""

    def open_write(self, key: str) -> ObjectWriter: ...

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult: ...


class OpenSegment:
    """Takes chunks until `finish` makes object and index durable. Nothing is visible before.

    `transactions` holds the markers of the batches so far.
    """

    def __init__(self, *, store: ObjectSink, key: str, compression: Compression) -> None:
        self.key = key
        self.raw_bytes = 0
        self._store = store
        self._compression = compression
        self._object = store.open_write(key)
        self._body = open_body(self._object, compression)
        self._stats = LogStats()
        self.transactions = TransactionIndexer()
        self._has_transactions = False
        self._frames: list[Frame] = []
        self._frame_raw_start = 0

    def append(self, chunk: Chunk) -> None:
        """Store all batches of `chunk`, cutting frames at batch borders. `chunk.data` may be reused afterwards."""
        headers = chunk.batches
        self._stats.add(headers)
        self._index_transactions(chunk)
        low = 0
        while low < len(headers):
            room = self._begin_frame_if_due(headers[low])
            high = max(bisect_left(headers, headers[low].position + room, key=_position), low + 1)
            self._store_batches(chunk.data, headers[low:high])
            low = high

    def finish(self, log_range: LogRange, topic_id: str) -> Segment:
        """Close the object, as the batches of `log_range`. Raises `ObjectTaken`, or errors of the store."""
        self._body.end_frame()
        sidecar = self._put_index()
        _check_ours(self._object.close(), self.key)
        summary = self._stats.summary()
        check(summary.size_bytes == self.raw_bytes, f"bytes of {self.key}")
        return Segment(
            key=self.key,
            topic=log_range.topic,
            topic_id=topic_id,
            partition=log_range.partition,
            start=log_range.start,
            end=log_range.end,
            first_offset=summary.first_base_offset,
            last_offset=summary.last_offset,
            records=summary.records,
            control_batches=summary.control_batches,
            batches=summary.batches,
            largest_batch_bytes=summary.largest_batch_bytes,
            raw_bytes=self.raw_bytes,
            stored_bytes=self._body.stored_bytes,
            compression=self._compression,
            base_timestamp_min_ms=summary.base_timestamp_min_ms,
            timestamp_max_ms=summary.timestamp_max_ms,
            timestamp_types=summary.timestamp_types,
            leader_epochs=summary.leader_epochs,
            has_transactions=summary.has_transactions,
            hash=self._body.hash(),
            index_key=index_key(self.key) if sidecar else None,
            index_hash=sidecar,
        )

    def abort(self) -> None:
        self._object.abort()

    def _index_transactions(self, chunk: Chunk) -> None:
        bits = CONTROL_BIT | TRANSACTIONAL_BIT
        if any(header.attributes & bits for header in chunk.batches):
            self._has_transactions = True
            self.transactions.feed(chunk.data, chunk.batches)

    def _begin_frame_if_due(self, header: BatchHeader) -> int:
        """Bytes left in the current frame. Begins a new frame if the last one is full."""
        used = self.raw_bytes - self._frame_raw_start
        if self._frames and used < FRAME_BYTES:
            return FRAME_BYTES - used
        self._body.end_frame()
        self._frame_raw_start = self.raw_bytes
        self._frames.append(
            Frame(
                first_offset=header.base_offset,
                raw_position=self.raw_bytes,
                stored_position=self._body.stored_bytes,
                timestamp_max_ms=NO_TIMESTAMP_MS,
                raw_crc=0,
            )
        )
        return FRAME_BYTES

    def _store_batches(self, data: memoryview, headers: Sequence[BatchHeader]) -> None:
        start, end = headers[0].position, headers[-1].end_position
        self._body.write(data[start:end])
        self.raw_bytes += end - start
        frame = self._frames[-1]
        self._frames[-1] = replace(
            frame,
            timestamp_max_ms=max(frame.timestamp_max_ms, *[header.max_timestamp_ms for header in headers]),
            raw_crc=crc32c(data[start:end], frame.raw_crc),
        )

    def _put_index(self) -> str | None:
        """Store the sidecar if needed, and return its hash. The sidecar is stored before the segment; a segment never
        lacks a sidecar."""
        if len(self._frames) < 2 and not self._has_transactions:
            return None
        index = SegmentIndex(
            segment_key=self.key,
            frames=tuple(self._frames),
            markers=self.transactions.markers,
            open=tuple(self.transactions.open_transactions),
        )
        data = encode_index(index)
        _check_ours(self._store.put_if_absent(index_key(self.key), data), index_key(self.key))
        return content_hash(data)


def _position(header: BatchHeader) -> int:
    return header.position


def _check_ours(result: PutResult, key: str) -> None:
    if result is PutResult.OTHER:
        raise ObjectTaken(f"{key} exists with other content", hint="run the command again: it uses a new name")


class SegmentWriter:
    """Takes the chunks of `log_range` in order; `close` returns the durable segments.

    Segments divide the range without gaps: the first begins at the range's start, the last ends at its end. A range
    without batches gives no segment. `compression`: `auto` compresses an object if most of its first chunk came
    uncompressed from the producer and a sample shrinks. `tail` receives the transactions of each durable segment. Use
    as a context manager: leaving by an exception aborts.
    """

    def __init__(  # noqa: PLR0913  # all by keyword, most with a default
        self,
        *,
        store: ObjectSink,
        layout: BackupLayout,
        log_range: LogRange,
        topic_id: str,
        compression: CompressionChoice = CompressionChoice.DEFAULT,
        target_bytes: int = TARGET_SEGMENT_BYTES,
        attempts: Callable[[], str] = random_id,
        tail: TailFold | None = None,
    ) -> None:
        self._store = store
        self._layout = layout
        self._range = log_range
        self._topic_id = topic_id
        self._choice = compression
        self._target_bytes = target_bytes
        self._attempts = attempts
        self._tail = tail
        self._current: OpenSegment | None = None
        self._start = log_range.start
        self._next_offset = log_range.start
        self._may_begin_cut = True
        self._segments: list[Segment] = []

    def append(self, chunk: Chunk) -> None:
        """Take whole batches with rising base offsets inside the range. `chunk.data` may be reused afterwards.

        The first batch of all, and the first after `skip_to`, may begin before the segment and end inside: the log
        started inside the batch.
        """
        if not chunk.batches:
            return
        first, last = chunk.batches[0], chunk.batches[-1]
        cut = self._current is None and self._may_begin_cut and first.next_offset > self._start
        in_order = cut or self._next_offset <= first.base_offset
        check(in_order, f"chunk at {first.base_offset} out of order in {self._range}")
        check(last.base_offset < self._range.end, f"chunk to {last.base_offset} out of range in {self._range}")
        if self._current is not None and self._current.raw_bytes >= self._target_bytes:
            self._finish(first.base_offset)
        if self._current is None:
            self._current = self._open(chunk)
        self._current.append(chunk)
        self._next_offset = last.next_offset

    def skip_to(self, offset: int) -> None:
        """The log now starts at `offset`, after the last appended batch. The next segment begins at `offset`, so only
        the remaining part of a cut batch is restored."""
        check(self._next_offset <= offset <= self._range.end, f"a skip to {offset} in {self._range}")
        self._finish(offset)
        if self._tail is not None:
            self._tail.skip(self._next_offset)
        self._start, self._may_begin_cut = offset, True

    def close(self, *, end: int | None = None) -> tuple[Segment, ...]:
        """Make all segments durable. After any error no segment of this range may be committed. `end`: the actual end
        of the range, after the last batch."""
        self._finish(self._range.end if end is None else end)
        return tuple(self._segments)

    def abort(self) -> None:
        """Give up. Finished segments remain as orphans."""
        if self._current is not None:
            self._current.abort()
            self._current = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def _open(self, chunk: Chunk) -> OpenSegment:
        compression = self._choose(chunk)
        key = self._layout.segment_key(
            topic=self._range.topic,
            partition=self._range.partition,
            start=self._start,
            attempt=self._attempts(),
            compressed=compression is Compression.ZSTD,
        )
        return OpenSegment(store=self._store, key=key, compression=compression)

    def _finish(self, end: int) -> None:
        if self._current is None:
            return
        part = LogRange(topic=self._range.topic, partition=self._range.partition, start=self._start, end=end)
        self._segments.append(self._current.finish(part, self._topic_id))
        if self._tail is not None:
            transactions = self._current.transactions
            self._tail.add(StretchTail(markers=transactions.markers, open=tuple(transactions.open_transactions)))
        self._current, self._may_begin_cut = None, False
        self._start = end

    def _choose(self, chunk: Chunk) -> Compression:
        if self._choice != CompressionChoice.AUTO:
            return Compression(self._choice)
        uncompressed = sum([h.size_bytes for h in chunk.batches if not h.attributes & CODEC_MASK])
        mostly = 2 * uncompressed > sum([h.size_bytes for h in chunk.batches])
        return Compression.ZSTD if mostly and pays_off(chunk.data) else Compression.NONE
