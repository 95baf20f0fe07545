"""Transactions in one partition's log: where they began, where their markers are, and which are still open.

Collects markers while batches pass; owns no log. `committed_view` holds the rule by which markers decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from offsite.log.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.chunk import Chunk, Gap, Hole
from offsite.log.markers import HoleStart, Marker, Markers, parse_control_marker
from offsite.log.range import LogRange

__all__ = ["Marker", "OpenTransaction", "TransactionIndexer", "UndecidedTransaction", "log_markers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndecidedTransaction:
    """A transaction with data from `first_offset` on and no marker yet."""

    producer_id: int
    first_offset: int

    @staticmethod
    def of(first_offsets: Mapping[int, int]) -> list[UndecidedTransaction]:
        """The transactions of `first_offsets` (producer id → first offset), by first offset."""
        by_offset = sorted((first_offset, producer_id) for producer_id, first_offset in first_offsets.items())
        return [UndecidedTransaction(producer_id=producer_id, first_offset=first) for first, producer_id in by_offset]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction without a marker yet, and the base offsets of its first and last batch so far."""

    producer_id: int
    first_offset: int
    last_offset: int


class TransactionIndexer:
    """Collects the markers of a run of batches of one partition, fed in offset order."""

    def __init__(self) -> None:
        self._markers = Markers()
        self._first_offsets: dict[int, int] = {}
        self._last_offsets: dict[int, int] = {}

    @property
    def markers(self) -> Markers:
        """All markers so far, by offset, without the drained markers."""
        return self._markers

    def drain(self) -> Markers:
        """The markers since the last call. The indexer forgets them."""
        drained, self._markers = self._markers, Markers()
        return drained

    @property
    def undecided(self) -> list[UndecidedTransaction]:
        """The transactions still open after the last batch, by first offset."""
        return UndecidedTransaction.of(self._first_offsets)

    @property
    def open_transactions(self) -> list[OpenTransaction]:
        """The transactions still open after the last batch, with the last batch of every transaction."""
        return [
            OpenTransaction(
                producer_id=transaction.producer_id,
                first_offset=transaction.first_offset,
                last_offset=self._last_offsets[transaction.producer_id],
            )
            for transaction in self.undecided
        ]

    def is_open(self, *, before: int) -> bool:
        """Whether a transaction with data at an offset less than `before` is still open after the last batch."""
        return any(first_offset < before for first_offset in self._first_offsets.values())

    def forget_open(self) -> None:
        """Offsets are missing here: every open transaction may have ended among them."""
        self._first_offsets.clear()
        self._last_offsets.clear()

    def feed(self, data: Buffer, headers: Iterable[BatchHeader]) -> None:
        """Add the next batches. Raises `DamagedBatch` for an unreadable control batch."""
        for header in headers:
            if header.attributes & CONTROL_BIT:
                self._end(data, header)
            elif header.attributes & TRANSACTIONAL_BIT:
                self._first_offsets.setdefault(header.producer_id, header.base_offset)
                self._last_offsets[header.producer_id] = header.base_offset

    def _end(self, data: Buffer, header: BatchHeader) -> None:
        marker = parse_control_marker(header.view(data), header)
        if marker is None:
            return
        self._last_offsets.pop(header.producer_id, None)
        self._markers.append(
            Marker(
                offset=header.base_offset,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                committed=marker.kind == "commit",
                first_offset=self._first_offsets.pop(header.producer_id, -1),
            )
        )


def log_markers(
    read: Callable[[LogRange], Iterable[Chunk | Hole | Gap]], log_range: LogRange, *, behind_to: int = 0
) -> Iterator[Markers | HoleStart]:
    """The markers of a live log, chunk by chunk. Covers `log_range`, and continues up to the offset `behind_to` while a
    transaction from the range is open. Yields a `HoleStart` where the log has deleted data meanwhile.

    Markers come after the data they decide. The log is read once for markers alone, before the data is read. Every call
    of `read` is a reader of its own. A range that begins with the first transactional batch is enough: partitions
    without transactions cost nothing. Raises the errors of `read`, and `DamagedBatch`.
    """
    indexer = TransactionIndexer()
    yield from _drained(indexer, read(log_range))
    behind = replace(log_range, start=log_range.end, end=max(log_range.end, behind_to))
    if len(behind) == 0 or not indexer.is_open(before=behind.start):
        return
    for markers in _drained(indexer, read(behind)):
        yield markers
        if not indexer.is_open(before=behind.start):
            return


def _drained(indexer: TransactionIndexer, items: Iterable[Chunk | Hole | Gap]) -> Iterator[Markers | HoleStart]:
    for item in items:
        if isinstance(item, Hole):
            indexer.forget_open()
            yield HoleStart(item.start)
        if isinstance(item, Chunk):
            indexer.feed(item.data, item.batches)
            yield indexer.drain()
