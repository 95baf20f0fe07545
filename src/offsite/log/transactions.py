"""Transactions in one partition's log: where they began, where their markers are, and which are still open at the end.

Collects markers while batches pass; owns no log. `committed_view` holds the rule by which markers decide.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from offsite.log.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.markers import HoleStart, Marker, Markers, parse_control_marker
from offsite.log.range import Chunk, Gap, Hole, LogRange

_UNKNOWN = -1


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTail:
    """The markers of a partition from an offset on, by offset, and the transactions open at the end, by first offset.
    `Marker.first_offset` is -1 when the transaction's data was not seen: the transaction may begin anywhere before.
    `has_plain`: records outside of transactions exist from the offset on."""

    markers: tuple[Marker, ...] = ()
    open: tuple[OpenTransaction, ...] = ()
    has_plain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StretchTail:
    """The tail of one stretch of a log: everything before the stretch was not seen. Small in transport between
    processes.

    `ended_producer_ids`: producers with a marker in the stretch before `markers`. Such a marker, not the first marker
    in `markers`, ended the transaction open at the start of the stretch. `first_hole`: the first missing offset; -1:
    none. The outcome of transactions open at a hole is unknown.
    """

    markers: Markers = field(default_factory=Markers)
    open: tuple[OpenTransaction, ...] = ()
    ended_producer_ids: frozenset[int] = frozenset()
    has_plain: bool = False
    first_hole: int = -1

    @property
    def is_empty(self) -> bool:
        """Whether the tail says nothing."""
        return not (self.markers or self.open or self.ended_producer_ids or self.has_plain or self.first_hole >= 0)


class TailFold:
    """Takes consecutive stretches of one partition's log, in order, and keeps the tail.

    Keeps the markers from offset `window_start` on, 40 bytes a marker, and only the producer ids of earlier markers.
    `known_open`: the known transactions that are open where the first stretch begins.

    A log is copied in stretches. No stretch sees where a transaction began that started in an earlier stretch. For a
    cut, `TailFold` joins stretch after stretch, with the result of one pass over all stretches.
    """

    def __init__(self, *, window_start: int = 0, known_open: Iterable[OpenTransaction] = ()) -> None:
        self._window_start = window_start
        self._open = {transaction.producer_id: transaction for transaction in known_open}
        self._markers = Markers()
        self._ended: set[int] = set()
        self._has_plain = False
        self._first_hole = -1

    def skip(self, offset: int) -> None:
        """From `offset` on, some offsets are missing: every open transaction may have ended among the missing
        offsets."""
        self._open.clear()
        self._first_hole = offset if self._first_hole < 0 else self._first_hole

    def observe(self, batches: Sequence[BatchHeader]) -> None:
        """Note whether the next batches of the stretch hold records outside of transactions."""
        if not self._has_plain and batches[-1].next_offset > self._window_start:
            inside = (batch for batch in batches if batch.next_offset > self._window_start)
            self._has_plain = not all(batch.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT) for batch in inside)

    def add(self, stretch: StretchTail) -> None:
        """Add the next stretch. Runs no Python code per marker: a stretch may have millions."""
        low = bisect_left(stretch.markers.offsets, self._window_start)
        self._ended.update(stretch.ended_producer_ids, stretch.markers.producer_ids[:low])
        self._markers.extend(self._ending_open(stretch)[low:])
        self._has_plain |= stretch.has_plain
        if stretch.first_hole >= 0:
            self.skip(stretch.first_hole)
        for transaction in stretch.open:
            began = self._open.get(transaction.producer_id, transaction)
            self._open[transaction.producer_id] = replace(transaction, first_offset=began.first_offset)

    def stretch_tail(self) -> StretchTail:
        """The tail of all stretches so far, as one stretch."""
        return StretchTail(
            markers=self._markers[:],
            open=self._still_open(),
            ended_producer_ids=frozenset(self._ended),
            has_plain=self._has_plain,
            first_hole=self._first_hole,
        )

    def partition_tail(self) -> PartitionTail:
        """The tail of the partition, provided that the stretches and `known_open` cover all relevant parts of the
        log."""
        return PartitionTail(markers=tuple(self._markers), open=self._still_open(), has_plain=self._has_plain)

    def _ending_open(self, stretch: StretchTail) -> Markers:
        """The markers of the stretch. Markers that end a transaction from before the stretch get its first offset."""
        if not self._open:
            return stretch.markers
        places = stretch.markers.first_places()
        if stretch.first_hole >= 0:
            low = bisect_left(stretch.markers.offsets, stretch.first_hole)
            places = {producer_id: place for producer_id, place in places.items() if place < low}
        ending = {
            key: transaction
            for key, transaction in self._open.items()
            if key in places or key in stretch.ended_producer_ids
        }
        self._open = {key: transaction for key, transaction in self._open.items() if key not in ending}
        return stretch.markers.with_first_offsets(
            {
                places[key]: transaction.first_offset
                for key, transaction in ending.items()
                if key not in stretch.ended_producer_ids
            }
        )

    def _still_open(self) -> tuple[OpenTransaction, ...]:
        return tuple(sorted(self._open.values(), key=_by_first_offset))


def with_unknown_beginnings(tail: PartitionTail) -> PartitionTail:
    """The tail when the first transaction of every producer may have begun before the data read."""
    met: set[int] = set()
    markers: list[Marker] = []
    for marker in tail.markers:
        markers.append(marker if marker.producer_id in met else marker._replace(first_offset=_UNKNOWN))
        met.add(marker.producer_id)
    still_open: list[OpenTransaction] = [
        transaction if transaction.producer_id in met else replace(transaction, first_offset=_UNKNOWN)
        for transaction in tail.open
    ]
    return replace(tail, markers=tuple(markers), open=tuple(still_open))


def _by_first_offset(transaction: OpenTransaction) -> tuple[int, int]:
    return transaction.first_offset, transaction.producer_id
