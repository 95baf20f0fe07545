"""A source partition's log as pieces to write for an equal log: data, outcomes of transactions, gaps.

Pieces come in offset order and leave no offset out. A transaction undecided at the restore point is aborted at the
offset of its last record: the log keeps its length, and a read_committed consumer has the same view. A transaction left
out by the cut is aborted where it was committed. `LookAhead` tells before the write which transactions begin *and* end
among the next pieces. Its window is small in pieces and bytes, and is written within minutes even at a low rate;
brokers keep transactions open for longer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from offsite.engine.meter import count_items
from offsite.log.batch import BatchHeader
from offsite.log.markers import parse_control_marker
from offsite.log.rewrite import needs_reencode, split_runs
from offsite.model.units import MIB
from offsite.points.point_in_time import PartitionChain
from offsite.points.source_view import (
    RecordBounds,
    VisibleBatch,
    begin_rewriting,
    committed_view,
    rewritten,
    undecided_batches,
)
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.stores.store import Store

PIECES_MAX = 2_048
BYTES_MAX = 4 * MIB


class DataPiece(NamedTuple):
    """A batch without gaps at `[start, end)`, in writable memory. `producer_id`: of its transaction."""

    start: int
    end: int
    batch: memoryview | bytearray
    producer_id: int | None


class TransactionEnd(NamedTuple):
    """The control record at `start` that ends a transaction of `producer_id`."""

    start: int
    end: int
    producer_id: int
    committed: bool


class UnusedOffsets(NamedTuple):
    """Offsets without a record."""

    start: int
    end: int


LogPiece: TypeAlias = DataPiece | TransactionEnd | UnusedOffsets


def first_offset(partition: PartitionChain, *, target_end: int = 0) -> int:
    """The lowest possible offset of the first batch: the log's start, or a lower offset when the log starts inside a
    batch; the log's end for an empty log. In a target that ends at `target_end` the batch begins no earlier: its
    records below the log's start are deleted at the end, and may be left out."""
    if not partition.segments:
        return partition.end
    first = partition.segments[0]
    return max(first.lowest_offset, min(target_end, first.start))


def log_start(partition: PartitionChain) -> int:
    """The offset at which the source's log began; an empty log began at its end."""
    return partition.segments[0].start if partition.segments else partition.end


class SourcePieces:
    """The pieces of one partition for a target that ends at `target_end`, with counts of the pieces so far. `records`:
    the store of the restore's records, if another."""

    def __init__(
        self, partition: PartitionChain, store: Store, *, target_end: int = 0, records: Store | None = None
    ) -> None:
        self._partition = partition
        self._store = store
        self._committed = committed_view(partition, store)
        self.rewriting = begin_rewriting(partition, records or store)
        self._left_out = frozenset(partition.left_out or ())
        self._last_undecided: dict[tuple[int, int], int] | None = None
        self._start = log_start(partition)
        self._at = self.first_offset = first_offset(partition, target_end=target_end)
        self.visible_records = 0
        """Records at or after the log's start, visible to consumers of both isolation levels."""
        self.invisible_records = 0
        """Records of transactions that were aborted, undecided at the restore point, or left out by the cut."""

    @property
    def undecided(self) -> int:
        """Number of transactions undecided at the restore point, so far."""
        return len(self._committed.undecided)

    def pieces(self) -> Iterator[LogPiece]:
        """All pieces of `[first_offset, end)`, once. Raises `DamagedObject`, and the errors of the store."""
        for segment, data, header in self._batches():
            # Records that the log start had passed when the segment was read do not count, but those before the very
            # first offset are written all the same: the log start passes them again.
            low = max(self._at, segment.start if self._at > self.first_offset else 0)
            for piece in self._of_batch(data, header, low):
                if piece.start > self._at:
                    yield UnusedOffsets(self._at, piece.start)
                self._at = piece.end
                yield piece
        if self._at < self._partition.end:
            yield UnusedOffsets(self._at, self._partition.end)

    def _batches(self) -> Iterator[tuple[Segment, memoryview, BatchHeader]]:
        for segment in self._partition.segments:
            end = min(segment.end, self._partition.end)
            for chunk in count_items(SegmentReader(store=self._store, segment=segment).chunks(end=end)):
                for header in chunk.batches:
                    yield segment, chunk.data, header

    def _of_batch(self, data: memoryview, header: BatchHeader, low: int) -> Iterator[LogPiece]:
        if header.record_count == 0 or header.next_offset <= low:
            return
        if header.is_control:
            marker = parse_control_marker(header.view(data), header)
            if marker is not None:
                offset = header.last_offset
                committed = marker.kind == "commit" and offset not in self._left_out
                yield TransactionEnd(offset, offset + 1, header.producer_id, committed=committed)
            return
        stored = VisibleBatch(data, header, RecordBounds(max(self._start, low), self._partition.end))
        last = self._undecided_last(header)
        for batch in rewritten(iter((stored,)), self.rewriting):
            self._count(batch)
            yield from self._data(batch.data, batch.header, low, self._partition.end if last is None else last)
        if last is not None and header.base_offset <= last <= header.last_offset:  # also between parts of the batch
            yield TransactionEnd(last, last + 1, header.producer_id, committed=False)

    def _data(self, data: memoryview, header: BatchHeader, low: int, end: int) -> Iterator[DataPiece]:
        producer_id = header.producer_id if header.is_transactional else None
        batch = header.view(data)
        if low <= header.base_offset and header.last_offset < end and not needs_reencode(header):
            yield DataPiece(header.base_offset, header.next_offset, batch, producer_id)
            return
        for first, after, run in split_runs(batch, header, start=low, end=end):
            yield DataPiece(first, after, run, producer_id)

    def _undecided_last(self, header: BatchHeader) -> int | None:
        """The last offset of the undecided data that the batch is part of, before the end; None for a decided batch."""
        if not self._committed.is_undecided(header):
            return None
        if self._last_undecided is None:
            self._last_undecided = self._find_last_undecided(header.base_offset)
        return self._last_undecided[header.producer_id, self._committed.stretch_index(header)]

    def _find_last_undecided(self, start: int) -> dict[tuple[int, int], int]:
        """Producer id and index of the stretch between holes → last offset of its undecided data. Reads the rest of the
        log once more, where undecided data exists."""
        view, most = self._committed, self._partition.end - 1
        undecided = undecided_batches(self._partition, self._store, view, start=start)
        return {(header.producer_id, view.stretch_index(header)): min(header.last_offset, most) for header in undecided}

    def _count(self, batch: VisibleBatch) -> None:
        records = batch.header.record_count
        if not batch.record_bounds.takes_all(batch.header):
            records = sum(1 for _ in batch.iterate())
        if self._committed.is_visible(batch.header):
            self.visible_records += records
        else:
            self.invisible_records += records


@dataclass(slots=True, eq=False)
class _WindowPiece:
    """A piece in the window. `is_beginning`: a transaction begins with the piece and ends in the window."""

    piece: LogPiece
    size_bytes: int
    is_beginning: bool = False
    has_passed: bool = False


class LookAhead:
    """Iterates over `pieces`, and reads some pieces ahead of the consumer. `open_`: the source's producer ids of
    transactions that began before."""

    def __init__(
        self,
        pieces: Iterable[LogPiece],
        open_: Collection[int] = (),
        *,
        most: int = PIECES_MAX,
        most_bytes: int = BYTES_MAX,
    ) -> None:
        self.whole_transactions = 0
        """Transactions that begin behind the last consumed piece, and end in the window."""
        self._pieces, self._most, self._most_bytes = iter(pieces), most, most_bytes
        self._window: deque[_WindowPiece] = deque()
        self._bytes = 0
        self._beginnings: dict[int, _WindowPiece | None] = dict.fromkeys(open_)

    def __iter__(self) -> Iterator[LogPiece]:
        for piece in self._pieces:
            self._see(piece)
            while len(self._window) >= self._most or self._bytes > self._most_bytes:
                yield self._pass()
        while self._window:
            yield self._pass()

    def _see(self, piece: LogPiece) -> None:
        window_piece = _WindowPiece(piece, len(piece.batch) if isinstance(piece, DataPiece) else 0)
        self._window.append(window_piece)
        self._bytes += window_piece.size_bytes
        if isinstance(piece, DataPiece) and piece.producer_id is not None:
            self._beginnings.setdefault(piece.producer_id, window_piece)
        elif isinstance(piece, TransactionEnd):
            beginning = self._beginnings.pop(
                piece.producer_id, window_piece
            )  # a transaction without data begins with its end
            if beginning is not None and not beginning.has_passed:
                beginning.is_beginning = True
                self.whole_transactions += 1

    def _pass(self) -> LogPiece:
        window_piece = self._window.popleft()
        window_piece.has_passed = True
        self._bytes -= window_piece.size_bytes
        self.whole_transactions -= window_piece.is_beginning
        return window_piece.piece
