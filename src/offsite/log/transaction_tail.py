"""The end of one partition's log for a cut: the last markers, and the open transactions.

A log is copied in stretches. No stretch sees where a transaction began that started in an earlier stretch. `TailFold`
joins stretch after stretch, with the result of one pass over all stretches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from offsite.log.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from offsite.log.markers import Marker, Markers
from offsite.log.transactions import OpenTransaction


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


_UNKNOWN = -1


class TailFold:
    """Takes consecutive stretches of one partition's log, in order, and keeps the tail.

    Keeps the markers from offset `window_start` on, 40 bytes a marker, and only the producer ids of earlier markers.
    `known_open`: the known transactions that are open where the first stretch begins.
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
