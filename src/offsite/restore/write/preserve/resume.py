"""The expected remains of an earlier attempt in a partition, and the check of the remains: only then the next attempt
may continue.

A coordinator aborts a transaction that stays open while nobody writes (after 15 minutes unless brokers are configured
otherwise), and the marker takes the offset of another piece. The check finds such markers, and records of other
producers at the end of the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from offsite.kafka.net.routing import Router
from offsite.kafka.reader import PartitionReader
from offsite.kafka.transaction_replay import PartitionTransactions, TransactionSlot
from offsite.log.batch import BatchHeader
from offsite.log.range import Chunk, LogRange, TopicPartition
from offsite.log.records.filler import FILLER_MAX_RECORDS
from offsite.model.errors import TransactionLost, check
from offsite.restore.write.attempt import WriteAttempt
from offsite.restore.write.preserve.expected_end import BatchVerdict, ExpectedEnd, LastData
from offsite.restore.write.preserve.pieces import DataPiece, LogPiece, TransactionEnd

_FILLER_BATCHES = 8
"""Batches of filler to check at the end of the target: another writer wrote at its end."""
COMPARED_OUTCOMES = 65_536
"""Outcomes to compare at the end: more than the open transactions of any partition, and less than 15 MB."""


class WrittenPieces:
    """The pieces of the source that are in the target already."""

    def __init__(self) -> None:
        self._first_offsets: dict[int, int] = {}
        self._outcomes: deque[TransactionEnd] = deque(maxlen=COMPARED_OUTCOMES)
        self._last_data = LastData()
        self.has_transactions = False
        """Whether any transaction may have been used: markers fill gaps, too."""

    def add(self, piece: LogPiece) -> None:
        match piece:
            case DataPiece(start=start, producer_id=producer_id):
                self._last_data.add(piece)
                if producer_id is not None:
                    self._first_offsets.setdefault(producer_id, start)
            case TransactionEnd(producer_id=producer_id):
                self._first_offsets.pop(producer_id, None)
                self._outcomes.append(piece)
        self.has_transactions |= not isinstance(piece, DataPiece) or piece.producer_id is not None

    def take_up(self, recovered: Mapping[int, TransactionSlot], target: TopicPartition) -> dict[int, TransactionSlot]:
        """The slots to continue with: source's producer id → the slot with its open transaction. `recovered`: slots by
        first offset.

        Raises `TransactionLost` unless exactly the expected transactions are open.
        """
        if sorted(recovered) != sorted(self._first_offsets.values()):
            raise _lost(target)
        return {producer_id: recovered[first] for producer_id, first in self._first_offsets.items()}

    def check_end(
        self,
        router: Router,
        target: TopicPartition,
        *,
        end: int,
        transactions: PartitionTransactions,
        attempt: WriteAttempt,
    ) -> None:
        """Compare the end of the target, which is at `end`, with the expected end (see `expected_end`), and as many
        last offsets as `transactions` had slots: brokers might have ended these transactions. Raises `TransactionLost`,
        and the error of `attempt` for unexpected records."""
        check(transactions.slots <= COMPARED_OUTCOMES, f"{transactions.slots} transactions open at once in {target}")
        outcomes = {piece.start: piece for piece in self._outcomes}
        data = self._last_data.pieces
        if not data:
            check_filler(router, target, start=0, end=end, transactions=transactions, attempt=attempt)
        since = data[0].start if data else end
        first = max(0, min(since, end - transactions.slots))
        log_range = LogRange(topic=target.topic, partition=target.partition, start=first, end=end)
        expected = ExpectedEnd(data, outcomes)
        for batch, header in _batches(router, log_range):
            is_strange = not header.is_control and not header.is_transactional and not attempt.wrote(header)
            verdict = BatchVerdict.UNEXPECTED if is_strange else expected.judge(batch, header)
            if verdict is BatchVerdict.ENDED_BY_BROKERS:
                raise _lost(target)
            if verdict is BatchVerdict.UNEXPECTED:
                raise attempt.unexpected(header.base_offset, end=end, own_producer_ids=transactions.producer_ids)


def check_filler(  # noqa: PLR0913  # where to look, and who judges
    router: Router,
    target: TopicPartition,
    *,
    start: int,
    end: int,
    transactions: PartitionTransactions,
    attempt: WriteAttempt,
) -> None:
    """Check that the last batches of `[start, end)`, a range without data of the source, are filler of this restore, or
    markers: records of other producers must not be deleted with the log's head. Raises the error of `attempt`."""
    first = max(start, end - _FILLER_BATCHES * FILLER_MAX_RECORDS)
    log_range = LogRange(topic=target.topic, partition=target.partition, start=first, end=end)
    for _, header in _batches(router, log_range):
        is_ours = attempt.wrote(header) and header.max_timestamp_ms < 0
        if not header.is_control and not is_ours:
            raise attempt.unexpected(header.base_offset, end=end, own_producer_ids=transactions.producer_ids)


def _batches(router: Router, log_range: LogRange) -> Iterator[tuple[memoryview, BatchHeader]]:
    """The batches that reach into the range: a large batch may begin before the range."""
    for item in PartitionReader(router).read(log_range, reach_back=True):
        if isinstance(item, Chunk):
            for header in item.batches:
                yield header.view(item.data), header


def _lost(target: TopicPartition) -> TransactionLost:
    return TransactionLost(
        f"the brokers ended transactions in {target} while this restore was not running",
        hint="delete the topic and run the same command again: the topic is written again from its beginning",
    )
