"""Repository → Kafka: one partition at its own offsets, in a worker. Transactions are replayed, gaps are filled.

A producer cannot choose an offset: the log gives every record the next offset. A log comes back at its own offsets only
if every offset is used up in order: a record by the record, the outcome of a transaction by an outcome (written only by
the transaction coordinator, KIP-98), and a gap by filler that no consumer sees, or that compaction removes.

The target's end offset shows the progress of an earlier attempt. Records below are skipped; transactions open at the
end are continued. Every acknowledgement is compared with the source's offset: the partition is the same log, or the
attempt fails.

With the right to write outcomes (`direct`), one transaction of a coordinator contains many of the source's, one after
another: a broker checks only that the coordinator has a transaction with the partition. Every transaction of the source
ends by an outcome of this writer, and the last one by the coordinator's. The coordinator's transaction may therefore
continue only while another transaction of the source is seen ahead that begins and ends: its outcome needs an offset in
the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Self

from offsite.kafka.admin import delete_before
from offsite.kafka.lane import Lanes
from offsite.kafka.log_writer import OUTCOMES_MAX, LogWriter
from offsite.kafka.offsets import await_end_offset, settled_end_offset
from offsite.kafka.producer import Producer, TransactionOutcome
from offsite.kafka.transaction_replay import PartitionTransactions, TransactionSlot
from offsite.log.offset_map import OffsetMapBuilder
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import FILLER_MAX_RECORDS, filler_batch
from offsite.model.errors import KafkaNotAuthorized, KafkaTooOld, OffsiteError, TransactionLost
from offsite.model.journal import decided
from offsite.points.record_rewrite import counts_of
from offsite.repository.restores.layout import RestoreLayout
from offsite.restore.write.attempt import RestoreEnds, RestoreReceipt, RestoreSteps, WriteAttempt
from offsite.restore.write.pieces import (
    DataPiece,
    LogPiece,
    LookAhead,
    SourcePieces,
    TransactionEnd,
    UnusedOffsets,
    first_offset,
    log_start,
)
from offsite.restore.write.plan import PartitionRestore
from offsite.restore.write.resume import WrittenPieces, check_filler

_AGAIN = "run the same command again"


class PreservingWriter:
    """A writer of the partition of `attempt` from offset `at` on. Use `transactions` only through the writer.
    `careful`: nothing is sent behind the first batch of a transaction before the batch is in the log."""

    def __init__(  # noqa: PLR0913  # keyword-only: how to write
        self,
        attempt: WriteAttempt,
        transactions: PartitionTransactions,
        *,
        at: int,
        direct: bool,
        careful: bool = False,
        lanes: Lanes | None = None,
    ) -> None:
        self._attempt, self._target = attempt, attempt.target
        self._transactions = transactions
        self._direct, self._careful = direct, careful
        self._open: dict[int, TransactionSlot] = {}
        self._producer: Producer = attempt.producer()
        self._log = LogWriter(
            attempt.router, attempt.target, at=at, unexpected=self._unexpected, guard=attempt.guard, lanes=lanes
        )

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
        end_offset = await_end_offset(self._attempt.router, self._target, end)
        if end_offset != end:
            raise self._elsewhere(end_offset, end)
        if self.at != end:
            self.skip_to(end)

    def _elsewhere(self, actual: int, expected: int) -> OffsiteError:
        """The target is at offset `actual` while the source is at `expected`."""
        return self._unexpected(min(actual, expected), max(actual, expected))

    def _unexpected(self, start: int, end: int) -> OffsiteError:
        return self._attempt.unexpected(start, end=end, own_producer_ids=self._transactions.producer_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreserveTask:
    """A partition to write at its own offsets; without segments its log is empty, and begins and ends at `end`.

    `target_start`: the end of the target partition before the restore's first attempt, at or before the start of the
    source; `making`: the number of the making of the target topic (see `RestoreTargets`); `direct`: this process writes
    outcomes, not coordinators; `careful`: see `PreservingWriter`.
    """

    partition: PartitionRestore
    target_start: int
    direct: bool = False
    careful: bool = False
    making: int = 1

    @property
    def title(self) -> str:
        return str(self.partition.target)


def transaction_prefix(layout: RestoreLayout, target: TopicPartition) -> str:
    """The beginning of all transactional ids of one restored partition."""
    return f"offsite-{layout.restore}-{target.topic}-{target.partition}"


def preserve_partition(
    task: PreserveTask, attempt: WriteAttempt, *, ends: RestoreEnds, lanes: Lanes | None = None
) -> RestoreSteps:
    """Make the target partition the log of the source at the restore point: same offsets, same start, same end.

    May run again after any crash, as a new attempt. Raises as `translate_partition`, and `TransactionLost` when brokers
    ended a transaction left open by an earlier attempt.
    """
    with attempt.judged():
        attempt.guard()  # the attempt may have begun long ago
        with _PartitionCopy(task, ends, attempt, lanes) as copy:
            return (yield from copy.run())


class _PartitionCopy:
    """The copy of one partition: its source, its writer, and how far earlier attempts came."""

    def __init__(self, task: PreserveTask, ends: RestoreEnds, attempt: WriteAttempt, lanes: Lanes | None) -> None:
        self._chain, self._target = task.partition.chain, task.partition.target
        self._task = task
        self._ends = ends
        self._attempt = attempt
        self._router = attempt.router
        self._transactions = PartitionTransactions(
            self._router,
            self._target,
            prefix=transaction_prefix(ends.layout, self._target),
            owner=attempt.producer_id,
            check=attempt.check,
        )
        self._replays = any(segment.has_transactions for segment in self._chain.segments)
        if self._replays:
            self._transactions.await_outcomes()
        if not attempt.is_first and (self._replays or self._has_gaps()):
            self._recover()  # from now on, a writer that wakes begins and ends no transaction
        self._target_end = settled_end_offset(self._router, self._target, start=task.target_start)
        self._source = SourcePieces(self._chain, ends.store, target_end=task.target_start, records=ends.records)
        self._written_before: WrittenPieces | None = WrittenPieces()
        self._writer = PreservingWriter(
            attempt,
            self._transactions,
            at=self._target_end,
            direct=task.direct,
            careful=task.careful,
            lanes=lanes,
        )
        self._resumed_records = self._bytes = 0

    def _has_gaps(self) -> bool:
        """Whether the partition has gaps, as far as segments tell. Empty transactions may have filled gaps."""
        stored_offsets = sum(segment.records + segment.control_batches for segment in self._chain.segments)
        return self._chain.end - first_offset(self._chain, target_end=self._task.target_start) > stored_offsets

    def _recover(self) -> Mapping[int, TransactionSlot]:
        """Recover open transactions. Without the right to ask, or on brokers without the request, no attempt can have
        begun a transaction."""
        try:
            return self._transactions.recover()
        except (KafkaTooOld, KafkaNotAuthorized):
            if self._replays or not self._task.direct:
                raise
            return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def run(self) -> RestoreSteps:
        """Write the missing pieces, let the log start where the source's log did, and store the map."""
        # 1. Use up the offsets below the source's first batch.
        start = log_start(self._chain)
        self._fill_head()
        # 2. Skip the pieces that earlier attempts wrote, and continue their open transactions.
        remaining = self._remaining_pieces()
        first_piece = list(
            islice(remaining, 1)
        )  # from here on the transactions left open by an earlier attempt are known
        self._catch_up()
        # 3. Write the remaining pieces, every piece at its own offset.
        ahead = LookAhead(chain(first_piece, remaining), self._writer.open)
        for piece in ahead:
            self._writer.write(piece, ahead)
            yield
        self._writer.flush()
        self._writer.check_end(self._chain.end)
        # 4. Let the log start where the source's did, and store the map.
        self._attempt.check()  # brokers fence records, not the deletion of records
        if start > self._task.target_start:
            delete_before(self._router, self._target, start)
        self._put_map(start)
        return self._receipt()

    def _fill_head(self) -> None:
        """Offsets below the source's first batch are deleted when the log starts at the batch: records of other
        producers must not stand there."""
        if self._task.target_start < self._target_end <= self._source.first_offset:
            check_filler(self._attempt, self._transactions, start=self._task.target_start, end=self._target_end)
        self._writer.fill_head(self._source.first_offset)

    def _remaining_pieces(self) -> Iterator[LogPiece]:
        """The pieces that are not in the target yet."""
        for piece in self._source.pieces():
            if isinstance(piece, DataPiece):
                self._bytes += len(piece.batch)
            remaining = piece if self._written_before is None else self._remaining_of(piece, self._written_before)
            if remaining is not None:
                yield remaining

    def _remaining_of(self, piece: LogPiece, passed: WrittenPieces) -> LogPiece | None:
        if piece.end > self._target_end:
            self._look_again()
        if piece.end <= self._target_end:
            passed.add(piece)
            self._resumed_records = self._source.visible_records
            return None
        if isinstance(piece, UnusedOffsets) and piece.start < self._target_end:
            passed.add(UnusedOffsets(piece.start, self._target_end))
            piece = UnusedOffsets(self._target_end, piece.end)
        self._catch_up()
        return piece

    def _look_again(self) -> None:
        """A stopped writer may have woken while its records passed. From the next record on it is shut out."""
        self._target_end = settled_end_offset(self._router, self._target, start=self._target_end)
        self._writer.skip_to(max(self._writer.at, self._target_end))

    def _catch_up(self) -> None:
        """All records of earlier attempts have passed: continue from their end. Only the first call has an effect."""
        passed, self._written_before = self._written_before, None
        if passed is None or self._target_end <= self._source.first_offset:
            return
        if passed.has_transactions:
            recovered = self._recover()
            self._writer.take_up(passed.take_up(recovered, self._target))
        passed.check_end(self._attempt, self._transactions, end=self._target_end)
        why = "the target has records of an earlier attempt"
        decided("resume", why=why, topic=self._target.topic, partition=self._target.partition, start=self._target_end)

    def _put_map(self, start: int) -> None:
        """Store the offset map: source and target offsets are equal."""
        builder = OffsetMapBuilder(source_start=start, target_start=start)
        if self._chain.end > start:
            builder.add(start, start, self._chain.end - start)
        built = builder.build(source_end=self._chain.end, target_end=self._chain.end)
        self._ends.layout.put_map(self._ends.records, self._chain.source, built, making=self._task.making)

    def _receipt(self) -> RestoreReceipt:
        return RestoreReceipt(
            target=self._target,
            records=self._source.visible_records,
            resumed_records=self._resumed_records,
            invisible_records=self._source.invisible_records,
            undecided=self._source.undecided,
            bytes=self._bytes,
            rewritten=counts_of([self._source.rewriting]),
        )
