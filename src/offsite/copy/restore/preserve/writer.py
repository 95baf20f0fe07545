"""The writer of a log at its source's offsets: one piece after the other, each at the offset where the source has it,
or not at all."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from offsite.copy.restore.attempt import WriteAttempt
from offsite.copy.restore.preserve.pieces import Data, LogPiece, TransactionEnd, UnusedOffsets
from offsite.copy.restore.preserve.plan import Filler
from offsite.kafka.net.routing import Router
from offsite.kafka.offsets import await_end_offset
from offsite.kafka.producer import Producer
from offsite.kafka.transactions.replay import PartitionTransactions, Slot
from offsite.kafka.writer import PartitionWriter
from offsite.log.range import TopicPartition
from offsite.log.records.filler import FILLER_MAX_RECORDS, filler_batch
from offsite.model.errors import OffsiteError


class PreservingWriter:
    """A writer of the target partition from offset `at` on. Use `transactions` only through this."""

    def __init__(
        self,
        router: Router,
        target: TopicPartition,
        *,
        at: int,
        transactions: PartitionTransactions,
        attempt: WriteAttempt,
    ) -> None:
        self.at = at
        """Where the next piece must begin: everything below was sent."""
        self._router = router
        self._target = target
        self._transactions = transactions
        self._attempt = attempt
        self._open: dict[int, Slot] = {}
        self._sent: deque[int] = deque()
        self._sender: Producer | None = None
        self._first = -1
        self._writer = PartitionWriter(
            router, target, on_ack=self._on_ack, producer=attempt.producer(), guard=attempt.guard
        )

    def take_up(self, slots: Mapping[int, Slot]) -> None:
        """Go on with these transactions, by the source's producer id."""
        self._open.update(slots)

    def write(self, piece: LogPiece, filler: Filler) -> None:
        """Write the next piece. Raises `TargetDisturbed` or `TargetNotEmpty` when anything is not where it has to be,
        and what writer and transactions raise."""
        if piece.start != self.at:
            raise self._elsewhere(self.at, piece.start)
        match piece:
            case Data():
                self._send(piece)
            case TransactionEnd():
                self._end(piece)
            case UnusedOffsets() if filler is Filler.TOMBSTONES:
                self._fill_with_records(piece.end, keyed=True)
            case UnusedOffsets():
                self._fill_with_markers(piece.end)

    def fill_head(self, end: int) -> None:
        """Use up the offsets below `end`, where the log will start: nobody reads them."""
        self._fill_with_records(end, keyed=False)

    def flush(self) -> None:
        """Return when everything is in the log."""
        self._writer.flush()

    def check_end(self, end: int) -> None:
        """Return when the log ends at `end`. Raises as `write` when it ends behind it."""
        self._await(end)

    def close(self) -> None:
        self._writer.close()

    def _send(self, piece: Data) -> None:
        producer = None
        if piece.producer_id is not None:
            producer = self._slot(piece.producer_id).producer
        self._put(piece.batch, piece.end - piece.start, producer)

    def _end(self, piece: TransactionEnd) -> None:
        slot = self._slot(piece.producer_id)
        self.flush()  # the coordinator writes the outcome: in no order with batches that are still under way
        self._attempt.guard()
        del self._open[piece.producer_id]
        self._transactions.end(slot, committed=piece.committed)
        self._await(piece.end)  # its answer may come before the outcome is in the log, and does not tell the offset

    def _slot(self, producer_id: int) -> Slot:
        if producer_id not in self._open:
            self._attempt.guard()
            self._open[producer_id] = self._transactions.begin()
        return self._open[producer_id]

    def _fill_with_records(self, end: int, *, keyed: bool) -> None:
        while self.at < end:
            count = min(end - self.at, FILLER_MAX_RECORDS)
            self._put(filler_batch(count, keyed=keyed), count, None)

    def _fill_with_markers(self, end: int) -> None:
        self.flush()
        while self.at < end:
            self._attempt.guard()
            self._await(self.at + self._transactions.end_empty(end - self.at))

    def _put(self, batch: memoryview | bytearray, records: int, producer: Producer | None) -> None:
        """Only batches of one producer may be under way together: brokers keep the order of each, not of all."""
        if producer is not self._sender:
            self.flush()
            self._sender = producer
        if self._first < 0:
            self._first = self.at
            self._writer.starts_at(self._first)
        self._sent.append(self.at)
        self.at += records
        self._writer.send(batch, producer=producer)

    def _on_ack(self, _index: int, base_offset: int) -> None:
        expected = self._sent.popleft()
        if base_offset != expected:
            raise self._elsewhere(base_offset, expected)

    def _await(self, end: int) -> None:
        found = await_end_offset(self._router, self._target, end)
        if found != end:
            raise self._elsewhere(found, end)
        self.at = end

    def _elsewhere(self, found: int, expected: int) -> OffsiteError:
        """The target is at offset `found` where the source is at `expected`."""
        start, end = min(found, expected), max(found, expected)
        return self._attempt.unexpected(start, end=end, own=self._transactions.producer_ids)
