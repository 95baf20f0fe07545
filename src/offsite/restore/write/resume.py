"""The expected remains of an earlier attempt in a partition, piece by piece of the source, and the check of the
remains: only then the next attempt may continue.

A coordinator aborts a transaction that stays open while nobody writes (after 15 minutes unless brokers are configured
otherwise), and the marker takes the offset of another piece. The check finds such markers, and records of other
producers at the end of the log. Leaders accept outcomes, and batches of other producers, that were sent behind a
refused batch: all later batches may stand at wrong offsets, up to the end of the log, as many as can be under way. The
compared range reaches farther, and includes the place of the refused batch, whatever stands there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from enum import Enum, auto

from offsite.kafka.lane import BYTES_MAX, REQUESTS_MAX
from offsite.kafka.net.routing import Router
from offsite.kafka.reader import PartitionReader
from offsite.kafka.transaction_replay import PartitionTransactions, TransactionSlot
from offsite.log.batch import BatchHeader, scan
from offsite.log.difference import record_content
from offsite.log.markers import parse_control_marker
from offsite.log.range import Chunk, LogRange, TopicPartition
from offsite.log.records.batch_records import FILLER_MAX_RECORDS, decode, is_filler, iterate
from offsite.model.errors import TransactionLost, check
from offsite.restore.write.attempt import WriteAttempt
from offsite.restore.write.pieces import DataPiece, LogPiece, TransactionEnd

PIECES_MAX = REQUESTS_MAX + 2
"""One more than the requests of a partition that can be under way: a request carries one batch of the partition."""
_FILLER_BATCHES = 8
"""Batches of filler to check at the end of the target: another writer wrote at its end."""
COMPARED_OUTCOMES = 65_536
"""Outcomes to compare at the end: more than the open transactions of any partition, and less than 15 MB."""


class LastData:
    """The last data pieces that passed: `PIECES_MAX` pieces, or fewer when they hold more bytes than can be under
    way."""

    def __init__(self) -> None:
        self.pieces: deque[DataPiece] = deque()
        self._bytes = self._largest = 0

    def add(self, piece: DataPiece) -> None:
        self.pieces.append(piece)
        self._bytes += len(piece.batch)
        self._largest = max(self._largest, len(piece.batch))
        while len(self.pieces) > PIECES_MAX or self._bytes - len(self.pieces[0].batch) > BYTES_MAX + self._largest:
            self._bytes -= len(self.pieces.popleft().batch)


class BatchVerdict(Enum):
    RIGHT = auto()
    ENDED_BY_BROKERS = auto()
    """An outcome that differs from the source's."""
    UNEXPECTED = auto()


class ExpectedEnd:
    """Judges the batches of a log's end, in order. `outcomes`: outcomes of the source, by offset."""

    def __init__(self, data: deque[DataPiece], outcomes: Mapping[int, TransactionEnd]) -> None:
        self._data, self._outcomes = data, outcomes
        self._writers: dict[int, int] = {}  # source's producer of an open transaction → the target's

    def judge(self, batch: memoryview, header: BatchHeader) -> BatchVerdict:
        touched = next(
            (piece for piece in self._data if piece.start < header.next_offset and piece.end > header.base_offset), None
        )
        if header.is_control:
            return BatchVerdict.UNEXPECTED if touched else self._judge_outcome(batch, header)
        if touched is not None:
            is_right = _is_the_same(touched, batch, header) and self._is_of(touched, header)
        else:
            is_right = not self._data or header.base_offset < self._data[0].start or _is_filler(batch, header)
        return BatchVerdict.RIGHT if is_right else BatchVerdict.UNEXPECTED

    def _judge_outcome(self, batch: memoryview, header: BatchHeader) -> BatchVerdict:
        expected = self._outcomes.get(header.base_offset)
        if expected is None:
            return BatchVerdict.RIGHT  # an outcome that fills a gap
        marker = parse_control_marker(batch, header)
        if (marker is not None and marker.kind == "commit") != expected.committed:
            return BatchVerdict.ENDED_BY_BROKERS
        writer = self._writers.pop(expected.producer_id, header.producer_id)
        return BatchVerdict.RIGHT if writer == header.producer_id else BatchVerdict.ENDED_BY_BROKERS

    def _is_of(self, piece: DataPiece, header: BatchHeader) -> bool:
        """Whether the batch is in a transaction exactly when the source's is, and of the one producer that replays the
        transaction."""
        if piece.producer_id is None or not header.is_transactional:
            return piece.producer_id is None and not header.is_transactional
        is_free = header.producer_id not in self._writers.values()
        writer = self._writers.get(piece.producer_id, header.producer_id if is_free else None)
        self._writers[piece.producer_id] = header.producer_id
        return writer == header.producer_id


def _is_the_same(piece: DataPiece, batch: memoryview, header: BatchHeader) -> bool:
    """Whether `batch` holds the records of `piece`, at the same offset. Brokers may compress again, and compaction
    removes records."""
    if header.base_offset != piece.start:
        return False
    (source,) = scan(piece.batch)
    expected = {record.offset: record_content(record) for record in decode(piece.batch, source)}
    return all(expected.get(record.offset) == record_content(record) for record in iterate(batch, header))


def _is_filler(batch: memoryview, header: BatchHeader) -> bool:
    return all(map(is_filler, iterate(batch, header)))


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

    def check_end(self, attempt: WriteAttempt, transactions: PartitionTransactions, *, end: int) -> None:
        """Compare the end of the target, which is at `end`, with the expected end (see `ExpectedEnd`), and as many
        last offsets as `transactions` had slots: brokers might have ended these transactions. Raises `TransactionLost`,
        and the error of `attempt` for unexpected records."""
        target = attempt.target
        check(transactions.slots <= COMPARED_OUTCOMES, f"{transactions.slots} transactions open at once in {target}")
        outcomes = {piece.start: piece for piece in self._outcomes}
        data = self._last_data.pieces
        if not data:
            check_filler(attempt, transactions, start=0, end=end)
        since = data[0].start if data else end
        first = max(0, min(since, end - transactions.slots))
        log_range = LogRange(topic=target.topic, partition=target.partition, start=first, end=end)
        expected = ExpectedEnd(data, outcomes)
        for batch, header in _batches(attempt.router, log_range):
            is_strange = not header.is_control and not header.is_transactional and not attempt.wrote(header)
            verdict = BatchVerdict.UNEXPECTED if is_strange else expected.judge(batch, header)
            if verdict is BatchVerdict.ENDED_BY_BROKERS:
                raise _lost(target)
            if verdict is BatchVerdict.UNEXPECTED:
                raise attempt.unexpected(header.base_offset, end=end, own_producer_ids=transactions.producer_ids)


def check_filler(attempt: WriteAttempt, transactions: PartitionTransactions, *, start: int, end: int) -> None:
    """Check that the last batches of `[start, end)`, a range without data of the source, are filler of this restore, or
    markers: records of other producers must not be deleted with the log's head. Raises the error of `attempt`."""
    first = max(start, end - _FILLER_BATCHES * FILLER_MAX_RECORDS)
    log_range = LogRange(topic=attempt.target.topic, partition=attempt.target.partition, start=first, end=end)
    for _, header in _batches(attempt.router, log_range):
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
