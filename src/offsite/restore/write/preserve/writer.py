"""Writes a log at its source's offsets: piece after piece, every piece at the offset of the source, or not at all.

With the right to write outcomes (`direct`), one transaction of a coordinator contains many of the source's, one after
another: a broker checks only that the coordinator has a transaction with the partition. Every transaction of the source
ends by an outcome of this writer, and the last one by the coordinator's. The coordinator's transaction may therefore
continue only while another transaction of the source is seen ahead that begins and ends: its outcome needs an offset in
the log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from offsite.kafka.lane import Lanes
from offsite.kafka.log_writer import OUTCOMES_MAX, LogWriter
from offsite.kafka.net.routing import Router
from offsite.kafka.offsets import await_end_offset
from offsite.kafka.producer import Producer, TransactionOutcome
from offsite.kafka.transaction_replay import PartitionTransactions, TransactionSlot
from offsite.log.range import TopicPartition
from offsite.log.records.filler import FILLER_MAX_RECORDS, filler_batch
from offsite.model.errors import OffsiteError, TransactionLost
from offsite.restore.write.attempt import WriteAttempt
from offsite.restore.write.preserve.pieces import DataPiece, LogPiece, LookAhead, TransactionEnd, UnusedOffsets

_AGAIN = "run the same command again"


class PreservingWriter:
    """A writer of the target partition from offset `at` on. Use `transactions` only through the writer. `careful`:
    nothing is sent behind the first batch of a transaction before the batch is in the log."""

    def __init__(  # noqa: PLR0913  # keyword-only: where to write, and how
        self,
        router: Router,
        target: TopicPartition,
        *,
        at: int,
        transactions: PartitionTransactions,
        attempt: WriteAttempt,
        direct: bool,
        careful: bool = False,
        lanes: Lanes | None = None,
    ) -> None:
        self._router = router
        self._target = target
        self._transactions = transactions
        self._attempt = attempt
        self._direct, self._careful = direct, careful
        self._open: dict[int, TransactionSlot] = {}
        self._producer: Producer = attempt.producer()
        self._log = LogWriter(router, target, at=at, unexpected=self._unexpected, guard=attempt.guard, lanes=lanes)

    @property
    def at(self) -> int:
        """The offset of the next piece: everything below was sent."""
        return self._log.at

    @property
    def open(self) -> Collection[int]:
        """Producer ids of the source with transactions open in the target."""
        return self._open.keys()

    def skip_to(self, offset: int) -> None:
        """Continue at `offset`: another attempt has written up to it."""
        self._log.skip_to(offset)

    def take_up(self, slots: Mapping[int, TransactionSlot]) -> None:
        """Continue open transactions, by the source's producer id."""
        self._open.update(slots)

    def write(self, piece: LogPiece, ahead: LookAhead) -> None:
        """Write the next piece. Raises `TargetDisturbed` or `TargetNotEmpty` when a record is not at its offset, and
        the errors of writer and transactions."""
        if piece.start != self.at:
            raise self._elsewhere(self.at, piece.start)
        match piece:
            case DataPiece():
                self._send(piece)
            case TransactionEnd():
                self._end(piece, ahead)
            case UnusedOffsets() if self._direct:
                self._fill_with_outcomes(piece.end)
            case UnusedOffsets():
                self._fill_with_transactions(piece.end)

    def fill_head(self, end: int) -> None:
        """Use up the offsets below `end`, the future log start: nobody reads these records."""
        while self.at < end:
            count = min(end - self.at, FILLER_MAX_RECORDS)
            self._log.send_batch(filler_batch(count), count, self._producer)

    def flush(self) -> None:
        """Return when everything is in the log."""
        self._log.flush()

    def check_end(self, end: int) -> None:
        """Return when the log ends at `end`. Raises as `write` when the log ends behind, and `TransactionLost` when
        brokers would end a transaction behind the end later."""
        self._await(end)
        if self._transactions.ongoing:
            raise TransactionLost(f"a transaction in {self._target} is open after its end", hint=_AGAIN)

    def close(self) -> None:
        self._log.close()

    def _send(self, piece: DataPiece) -> None:
        """Send one batch. A leader asks the coordinator for the first batch of a transaction (KIP-890), and refuses
        only this batch while the coordinator moves: batches sent behind it would take its offset."""
        begins = piece.producer_id is not None and piece.producer_id not in self._open
        producer = self._producer if piece.producer_id is None else self._slot(piece.producer_id).producer
        self._log.send_batch(piece.batch, piece.end - piece.start, producer)
        if begins and self._careful:
            self.flush()

    def _end(self, piece: TransactionEnd, ahead: LookAhead) -> None:
        slot = self._slot(piece.producer_id)
        del self._open[piece.producer_id]
        if (
            self._direct
            and self._transactions.ongoing < ahead.whole_transactions
            and self._transactions.may_go_on(slot)
        ):
            self._log.send_outcomes([self._transactions.outcome(slot, committed=piece.committed)])
            return
        self.flush()  # the coordinator writes the outcome: in no order with batches still under way
        self._attempt.guard()
        self._transactions.end(slot, committed=piece.committed)
        self._await(piece.end)  # the answer may come before the outcome is in the log, and does not tell the offset

    def _slot(self, producer_id: int) -> TransactionSlot:
        if producer_id not in self._open:
            self._attempt.guard()
            self._open[producer_id] = self._transactions.begin()
        return self._open[producer_id]

    def _fill_with_outcomes(self, end: int) -> None:
        nothing = TransactionOutcome(self._producer.producer_id, self._producer.epoch, committed=False)
        while self.at < end:
            self._log.send_outcomes([nothing] * min(end - self.at, OUTCOMES_MAX))

    def _fill_with_transactions(self, end: int) -> None:
        self.flush()
        while self.at < end:
            self._attempt.guard()
            self._await(self.at + self._transactions.end_empty(end - self.at))

    def _await(self, end: int) -> None:
        end_offset = await_end_offset(self._router, self._target, end)
        if end_offset != end:
            raise self._elsewhere(end_offset, end)
        if self.at != end:
            self.skip_to(end)

    def _elsewhere(self, actual: int, expected: int) -> OffsiteError:
        """The target is at offset `actual` while the source is at `expected`."""
        return self._unexpected(min(actual, expected), max(actual, expected))

    def _unexpected(self, start: int, end: int) -> OffsiteError:
        return self._attempt.unexpected(start, end=end, own_producer_ids=self._transactions.producer_ids)
