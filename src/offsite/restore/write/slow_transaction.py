"""Whether a transaction would stay open for too long during a restore of its partition: brokers would end the
transaction.

A replayed transaction is open from its first batch to its marker, and all data between has to be written meanwhile.
Segments tell the amount of data, their sidecars the begin and end of transactions; sidecars are read only of partitions
that take long enough. Sidecars of older versions do not record open transactions at their end: of a transaction that
reaches over the end of such a segment only the last part counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from offsite.log.transactions import OpenTransaction
from offsite.points.chain import PartitionChain
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.restore.write.replay_way import ReplayWay
from offsite.stores.store import Store

WRITE_BYTES_PER_S = 20_000_000
"""Write rate of one of several partitions on a busy machine or a line of 1 Gbit/s, in bytes per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowTransaction:
    """A transaction with data at offsets from `start` on and its outcome before `end`: writing the offsets between
    takes about `open_s` seconds."""

    producer_id: int
    start: int
    end: int
    open_s: float


def slow_transaction(
    partition: PartitionChain, *, store: Store, open_max_s: float, way: ReplayWay
) -> SlowTransaction | None:
    """The transaction that stays open longest, if longer than `open_max_s` seconds. A transaction that is undecided at
    the end, or at a hole, counts to its last batch. Raises `DamagedObject`, and the errors of the store."""
    costs = _Costs(partition.segments, way)
    if costs.total_s <= open_max_s:
        return None
    search = _Search(costs, partition.end, open_max_s)
    holes_passed = 0
    for segment in partition.segments:
        if (holes := bisect_right(partition.hole_starts, segment.start)) > holes_passed:
            search.end_open()
            holes_passed = holes
        if segment.has_transactions:
            search.pass_over(segment, store)
    return search.finish()


class _Search:
    """Visits the sidecars in order. `_open`: transactions without a marker so far."""

    def __init__(self, costs: _Costs, end: int, open_max_s: float) -> None:
        self._costs = costs
        self._end = end
        self._open_max_s = open_max_s
        self._open: dict[int, OpenTransaction] = {}
        self._slowest: SlowTransaction | None = None

    def pass_over(self, segment: Segment, store: Store) -> None:
        index = SegmentReader(store=store, segment=segment).index()
        is_slow = self._costs.between(segment.lowest_offset, segment.end) > self._open_max_s
        for marker in index.markers:
            open_transaction = self._open.get(marker.producer_id)
            is_inside = open_transaction is None and marker.first_offset >= 0
            if is_inside and not is_slow:
                continue
            first = (
                open_transaction.first_offset if open_transaction else max(marker.first_offset, segment.lowest_offset)
            )
            if marker.offset < self._end:
                self._open.pop(marker.producer_id, None)
                self._consider(marker.producer_id, first, marker.offset + 1)
            elif 0 <= marker.first_offset < self._end:  # undecided at the end, with data up to an unknown offset
                self._open[marker.producer_id] = OpenTransaction(
                    producer_id=marker.producer_id, first_offset=first, last_offset=self._end - 1
                )
        for transaction in index.open or ():
            open_transaction = self._open.get(transaction.producer_id, transaction)
            self._open[transaction.producer_id] = replace(transaction, first_offset=open_transaction.first_offset)

    def end_open(self) -> None:
        """End all open transactions with their last batch."""
        for transaction in self._open.values():
            if transaction.first_offset < self._end:
                self._consider(
                    transaction.producer_id, transaction.first_offset, min(transaction.last_offset + 1, self._end)
                )
        self._open.clear()

    def finish(self) -> SlowTransaction | None:
        self.end_open()
        return self._slowest

    def _consider(self, producer_id: int, start: int, end: int) -> None:
        open_s = self._costs.between(start, end)
        if open_s > (self._slowest.open_s if self._slowest else self._open_max_s):
            self._slowest = SlowTransaction(producer_id=producer_id, start=start, end=end, open_s=open_s)


class _Costs:
    """The time to write from one offset to another; offsets within a segment count alike."""

    def __init__(self, segments: Sequence[Segment], way: ReplayWay) -> None:
        self._offsets: list[int] = []
        self._until_s: list[float] = []
        spent_s, at = 0.0, segments[0].lowest_offset if segments else 0
        for segment in segments:
            spent_s += max(segment.lowest_offset - at, 0) * way.gap_s
            at = max(segment.end, segment.last_offset + 1)
            self._offsets += [segment.lowest_offset, at]
            self._until_s += [spent_s, spent_s + _segment_s(segment, way)]
            spent_s = self._until_s[-1]

    @property
    def total_s(self) -> float:
        return self._until_s[-1] if self._until_s else 0.0

    def between(self, start: int, end: int) -> float:
        return max(self._until(end) - self._until(start), 0.0)

    def _until(self, offset: int) -> float:
        after = bisect_right(self._offsets, offset)
        if after in (0, len(self._offsets)):
            return self.total_s if after else 0.0
        low, high = self._offsets[after - 1 : after + 1]
        part = (offset - low) / (high - low)
        return self._until_s[after - 1] + part * (self._until_s[after] - self._until_s[after - 1])


def _segment_s(segment: Segment, way: ReplayWay) -> float:
    gaps = segment.end - segment.lowest_offset - segment.records - segment.control_batches
    written_s = segment.raw_bytes / WRITE_BYTES_PER_S + segment.control_batches * way.outcome_s
    return written_s + max(gaps, 0) * way.gap_s
