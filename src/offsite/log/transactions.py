"""Transactions in one partition's log: where each ended, how, and so which batches a read_committed consumer sees.

Owns no log: markers are collected while batches pass, visibility is decided from markers alone, so that nobody has to
look ahead in data. Rule (KIP-98): a transactional batch belongs to the next marker of its producer id in the same
partition. Epochs play no part in it: a fenced producer's data is ended by a marker of a higher epoch. Memory grows with
the transactions that are open and with `Outcomes`, not with the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from offsite.log.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.control import control_type
from offsite.log.markers import Marker, Markers
from offsite.log.outcomes import Outcomes

__all__ = ["CommittedView", "Marker", "OpenTransaction", "TransactionIndexer", "Undecided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """A transaction with data from `first_offset` on and no marker yet."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction without a marker yet, and the base offsets of its first and its last batch so far."""

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
        """All markers so far that were not drained, by offset."""
        return self._markers

    def drain(self) -> Markers:
        """The markers since the last call, which are then forgotten here."""
        drained, self._markers = self._markers, Markers()
        return drained

    @property
    def undecided(self) -> list[Undecided]:
        """The transactions still open after the last batch, by first offset."""
        return _undecided(self._first_offsets)

    @property
    def open_transactions(self) -> list[OpenTransaction]:
        """The same, with how far each has come."""
        return [
            OpenTransaction(
                producer_id=each.producer_id,
                first_offset=each.first_offset,
                last_offset=self._last_offsets[each.producer_id],
            )
            for each in self.undecided
        ]

    def feed(self, data: Buffer, headers: Iterable[BatchHeader]) -> None:
        """Take in the next batches. Raises `DamagedBatch` if a control batch cannot be read."""
        for header in headers:
            if header.attributes & CONTROL_BIT:
                self._end(data, header)
            elif header.attributes & TRANSACTIONAL_BIT:
                self._first_offsets.setdefault(header.producer_id, header.base_offset)
                self._last_offsets[header.producer_id] = header.base_offset

    def _end(self, data: Buffer, header: BatchHeader) -> None:
        marker = control_type(header.view(data), header)
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


class CommittedView:
    """What a read_committed consumer sees of a partition that ends at `end_offset` (exclusive).

    `markers`: all of the partition by offset, or the first of them, and `take` brings the others before they are
    needed. Those at or after the end do not count, so that a transaction which is decided only later is undecided here,
    and invisible.
    """

    def __init__(self, markers: Iterable[Marker] = (), *, end_offset: int) -> None:
        self._outcomes = Outcomes(end_offset=end_offset)
        self._first_undecided: dict[int, int] = {}
        self.take(markers)

    def take(self, markers: Iterable[Marker]) -> None:
        """Go on with the next markers."""
        self._outcomes.take(markers)

    @property
    def undecided(self) -> list[Undecided]:
        """Of the batches asked about: the transactions left out because they have no marker before the end."""
        return _undecided(self._first_undecided)

    def is_visible(self, header: BatchHeader) -> bool:
        """Whether the batch's records reach a read_committed consumer; a control batch never does."""
        kind = header.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT)
        if kind != TRANSACTIONAL_BIT:
            return not kind
        outcome = self._outcomes.of(header.producer_id, header.base_offset)
        if outcome is None:
            first = self._first_undecided.get(header.producer_id, header.base_offset)
            self._first_undecided[header.producer_id] = min(first, header.base_offset)
        return outcome is True

    def outcome(self, header: BatchHeader) -> bool | None:
        """Whether the transactional batch was committed, by its producer id's next marker; None: there is none."""
        return self._outcomes.of(header.producer_id, header.base_offset)


def _undecided(first_offsets: dict[int, int]) -> list[Undecided]:
    by_offset = sorted((first_offset, producer_id) for producer_id, first_offset in first_offsets.items())
    return [Undecided(producer_id=pid, first_offset=first) for first, pid in by_offset]
