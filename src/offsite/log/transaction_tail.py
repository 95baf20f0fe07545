"""The end of one partition's log as a cut needs it: the last markers, and what is still open.

A log is copied in stretches, and none of them sees where a transaction began that an earlier one saw first. `TailFold`
joins them: stretch after stretch, it gives what one pass over all of them would.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from offsite.log.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from offsite.log.markers import Marker, Markers
from offsite.log.transactions import OpenTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTail:
    """The markers of a partition from an offset on, by offset, and the transactions that are open at its end, by first
    offset. `Marker.first_offset` is -1 where the transaction's data was not seen: it may begin anywhere before.

    `ended`: the producers with a marker before that offset. What they had open before the stretch that the tail is of
    was ended there, and not by their first marker in `markers`. `has_plain`: there are records outside of transactions
    from that offset on.
    """

    markers: tuple[Marker, ...] = ()
    open: tuple[OpenTransaction, ...] = ()
    ended: frozenset[int] = frozenset()
    has_plain: bool = False


class TailFold:
    """Takes consecutive stretches of one partition's log, in order, and keeps their tail.

    Kept are the markers from offset `window_start` on, 40 bytes each; of those before it, only whose they are.
    `known_open`: the transactions that are open where the first stretch begins, as far as they are known.
    """

    def __init__(self, *, window_start: int = 0, known_open: Iterable[OpenTransaction] = ()) -> None:
        self._window_start = window_start
        self._open = {each.producer_id: each for each in known_open}
        self._markers = Markers()
        self._ended: set[int] = set()
        self._has_plain = False

    def look(self, batches: Sequence[BatchHeader]) -> None:
        """See whether the next batches of the stretch hold records outside of transactions."""
        if not self._has_plain and batches[-1].next_offset > self._window_start:
            inside = (each for each in batches if each.next_offset > self._window_start)
            self._has_plain = not all(each.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT) for each in inside)

    def add(
        self, markers: Markers, open_transactions: Iterable[OpenTransaction], *, ended: Collection[int] = ()
    ) -> None:
        """Take in the next stretch: its markers, each with the `first_offset` that it has there, and what is open at
        its end, as `TransactionIndexer` tells them. `ended`: the producers with markers in it before those given."""
        places = markers.first_places()
        low = bisect_left(markers.offsets, self._window_start)
        first_offsets = {
            places[producer_id]: each.first_offset
            for producer_id, each in self._open.items()
            if producer_id in places and producer_id not in ended
        }
        self._markers.extend(markers.with_first_offsets(first_offsets)[low:])
        self._ended.update(ended)
        self._ended.update(producer_id for producer_id, place in places.items() if place < low)
        self._open = {key: each for key, each in self._open.items() if key not in places and key not in ended}
        for each in open_transactions:
            began = self._open.get(each.producer_id, each)
            self._open[each.producer_id] = replace(each, first_offset=began.first_offset)

    def add_tail(self, tail: PartitionTail) -> None:
        """The same with the tail of the next stretch."""
        self.add(Markers(tail.markers), tail.open, ended=tail.ended)
        self._has_plain |= tail.has_plain

    def tail(self) -> PartitionTail:
        """That of the stretches so far."""
        return PartitionTail(
            markers=tuple(self._markers),
            open=tuple(sorted(self._open.values(), key=_by_first_offset)),
            ended=frozenset(self._ended),
            has_plain=self._has_plain,
        )


def _by_first_offset(transaction: OpenTransaction) -> tuple[int, int]:
    return transaction.first_offset, transaction.producer_id
