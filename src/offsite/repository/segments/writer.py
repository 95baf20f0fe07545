"""Writes the batches of one range into segments: streamed, hashed, indexed, rotated by size.

A segment counts only once listed by a commit. Before, the object is an orphan, open to collection.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from offsite.log.batch import CODEC_MASK
from offsite.log.range import Chunk, LogRange
from offsite.log.transactions import StretchTail, TailFold
from offsite.model.errors import check
from offsite.model.ids import random_id
from offsite.model.options import CompressionChoice
from offsite.model.units import MIB
from offsite.repository.layout import BackupLayout
from offsite.repository.segments.body import pays_off
from offsite.repository.segments.open_segment import ObjectSink, OpenSegment
from offsite.repository.segments.segment import Compression, Segment

TARGET_SEGMENT_BYTES = 128 * MIB


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
