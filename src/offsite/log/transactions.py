"""Transactions in one partition's log: where each ended, how, and so which batches a read_committed consumer sees.

Owns no log: markers are collected while batches pass, visibility is decided from markers alone, so that nobody has to
look ahead in data. Rule (KIP-98): a transactional batch belongs to the next marker of its producer id in the same
partition. Epochs play no part in it: a fenced producer's data is ended by a marker of a higher epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from offsite.log.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.control import control_type

__all__ = ["CommittedView", "Marker", "TransactionIndexer", "Undecided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The control record at `offset` that ended a transaction of `producer_id`.

    `first_offset` is the base offset of the transaction's first batch that the indexer saw, or -1: a transaction
    without data here, or one whose data lies before the indexed range.
    """

    offset: int
    producer_id: int
    producer_epoch: int
    committed: bool
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """A transaction with data from `first_offset` on and no marker yet."""

    producer_id: int
    first_offset: int


class TransactionIndexer:
    """Collects the markers of a run of batches of one partition, fed in offset order."""

    def __init__(self) -> None:
        self._markers: list[Marker] = []
        self._first_offsets: dict[int, int] = {}

    @property
    def markers(self) -> Sequence[Marker]:
        """All markers so far, by offset."""
        return self._markers

    @property
    def undecided(self) -> list[Undecided]:
        """The transactions still open after the last batch, by first offset."""
        return _undecided(self._first_offsets)

    def feed(self, data: Buffer, headers: Iterable[BatchHeader]) -> None:
        """Take in the next batches. Raises `DamagedBatch` if a control batch cannot be read."""
        for header in headers:
            if header.attributes & CONTROL_BIT:
                self._end(data, header)
            elif header.attributes & TRANSACTIONAL_BIT:
                self._first_offsets.setdefault(header.producer_id, header.base_offset)

    def _end(self, data: Buffer, header: BatchHeader) -> None:
        marker = control_type(header.view(data), header)
        if marker is None:
            return
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

    `markers`: all of the partition by offset; those at or after the end do not count, so that a transaction which is
    decided only later is undecided here, and invisible.
    """

    def __init__(self, markers: Iterable[Marker], *, end_offset: int) -> None:
        self._offsets: dict[int, list[int]] = {}
        self._outcomes: dict[int, list[bool]] = {}
        self._first_undecided: dict[int, int] = {}
        for marker in markers:
            if marker.offset < end_offset:
                self._offsets.setdefault(marker.producer_id, []).append(marker.offset)
                self._outcomes.setdefault(marker.producer_id, []).append(marker.committed)

    @property
    def undecided(self) -> list[Undecided]:
        """Of the batches asked about: the transactions left out because they have no marker before the end."""
        return _undecided(self._first_undecided)

    def is_visible(self, header: BatchHeader) -> bool:
        """Whether the batch's records reach a read_committed consumer; a control batch never does."""
        if not header.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT):
            return True
        if header.attributes & CONTROL_BIT:
            return False
        outcome = self.outcome(header)
        if outcome is None:
            first = self._first_undecided.get(header.producer_id, header.base_offset)
            self._first_undecided[header.producer_id] = min(first, header.base_offset)
        return outcome is True

    def outcome(self, header: BatchHeader) -> bool | None:
        """Whether the transactional batch was committed, by its producer id's next marker; None: there is none."""
        offsets = self._offsets.get(header.producer_id, [])
        index = bisect_right(offsets, header.base_offset)
        return self._outcomes[header.producer_id][index] if index < len(offsets) else None


def _undecided(first_offsets: dict[int, int]) -> list[Undecided]:
    by_offset = sorted((first_offset, producer_id) for producer_id, first_offset in first_offsets.items())
    return [Undecided(producer_id=pid, first_offset=first) for first, pid in by_offset]
