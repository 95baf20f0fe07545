"""The expected end of a log, piece by piece of the source: data, and outcomes between.

Leaders accept outcomes, and batches of other producers, that were sent behind a refused batch. All later batches may
then stand at wrong offsets, up to the end of the log: as many as can be under way. The compared range reaches farther,
and includes the place of the refused batch, whatever stands there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum, auto

from offsite.kafka.lane import BYTES_MAX, REQUESTS_MAX
from offsite.log.batch import BatchHeader, scan
from offsite.log.difference import record_content
from offsite.log.markers import parse_control_marker
from offsite.log.records.batch_records import decode, iterate
from offsite.log.records.filler import is_filler
from offsite.restore.write.preserve.pieces import DataPiece, TransactionEnd

PIECES_MAX = REQUESTS_MAX + 2
"""One more than the requests of a partition that can be under way: a request carries one batch of the partition."""


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
