"""One segment during writing: its object, its statistics, and the starts of its frames."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from crc32c import crc32c

from offsite.log.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.range import Chunk, LogRange
from offsite.log.stats import LogStats
from offsite.log.transactions import TransactionIndexer
from offsite.model.errors import ObjectTaken, check
from offsite.model.units import MIB
from offsite.repository.layout import index_key
from offsite.repository.segments.body import content_hash, open_body
from offsite.repository.segments.figures import NO_TIMESTAMP_MS
from offsite.repository.segments.index import Frame, SegmentIndex, encode_index
from offsite.repository.segments.segment import Compression, Segment
from offsite.stores.store import ObjectWriter, PutResult

FRAME_BYTES = 4 * MIB
"""Distance between seek points: small enough for seeking, large enough for zstd and for one ranged read."""


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
