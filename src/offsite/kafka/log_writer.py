"""Write a log with known offsets: batches of several producers, and control records between the batches.

Everything goes over one connection with many requests in flight, and a leader handles the requests in order. So the
last piece need not wait for the first, whoever the producer is; and writers of further partitions may share the
connection and the requests (`lane.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from offsite.kafka.lane import Batch, ControlRecords, Lane, Lanes, Piece
from offsite.kafka.log_bounds import LeaderAnswers
from offsite.kafka.net.backoff import MISSING_TOPIC_MAX_S, PASSING, Backoff
from offsite.kafka.net.routing import Router
from offsite.kafka.offsets import settled_end_offset
from offsite.kafka.producer import FENCED, LOST_TRACK, LostTrackError, Producer, TransactionOutcome, fenced_error
from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.produce import ProduceAnswer
from offsite.kafka.reader import PartitionReader
from offsite.log.batch import BatchHeader
from offsite.log.range import Chunk, LogRange, TopicPartition
from offsite.log.rewrite import for_produce
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import (
    KafkaProtocolError,
    KafkaTimeout,
    NoSuchTopic,
    OffsiteError,
    ProtectedTopic,
)
from offsite.model.names import PROTECTED_TOPICS

OUTCOMES_MAX = 1_000
"""Outcomes in one request."""

Unexpected = Callable[[int, int], OffsiteError]
"""Makes the error for offsets `[start, end)` of the log that hold something unexpected."""


class LogWriter:
    """Writes into one partition from offset `at` on. `guard` is called before every request, repeated or new, and may
    raise. The first request to the cluster comes with the first piece. `lanes`: lanes shared with writers of further
    partitions in the same thread.

    Every method raises the errors of `guard` and `unexpected`, `WriterFenced`, `TransactionLost`, `TargetMismatch`,
    `KafkaNotAuthorized`, `NoSuchTopic`, `KafkaProtocolError`, and `KafkaUnavailable` when an outage lasts too long; the
    writer is of no further use afterwards. The constructor raises `ProtectedTopic`.

    Nothing is assumed about unanswered pieces. After a lost connection or a refusal, the log is read from the first
    unanswered piece on, and must hold the sent pieces in order. Pieces in the log are done, the rest is sent again.
    Anything else in the log (a request accepted behind a refused request, a stranger's record) is an error, and nothing
    is added behind it. Brokers fence producers, so a late piece of an overtaken writer is refused.
    """

    def __init__(  # noqa: PLR0913  # keyword-only settings
        self,
        router: Router,
        partition: TopicPartition,
        *,
        at: int,
        unexpected: Unexpected,
        guard: Callable[[], None],
        lanes: Lanes | None = None,
        clock: Clock | None = None,
    ) -> None:
        if partition.topic in PROTECTED_TOPICS:
            raise ProtectedTopic(f"{partition.topic} belongs to Kafka itself: offsite never produces into it")
        self.at = at
        """Offset of the next piece: everything below was sent."""
        self.partition = partition
        self._router = router
        self._unexpected, self._guard = unexpected, guard
        self._clock = clock or SystemClock()
        self._lanes = lanes or Lanes(router, clock=self._clock)
        self._pending: deque[Piece] = deque()
        self._sent = 0  # number of pending pieces sent over the lane
        self._met: set[tuple[int, int]] = set()  # producer ids and epochs with a batch at the leader
        self._lane: Lane | None = None
        self._trouble: OffsiteError | None = None  # why the last lane ended
        self._error: OffsiteError | None = None
        self._outage = Backoff(self._clock)
        self._absence = Backoff(self._clock, limit_s=MISSING_TOPIC_MAX_S)

    def send_batch(self, batch: bytearray | memoryview, records: int, producer: Producer) -> None:
        """Send one whole batch without gaps, and rewrite the header in place. The memory belongs to the writer until
        the next flush."""
        self._lanes.pay(len(batch))
        sequence = producer.claim(records)
        for_produce(
            batch,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=producer.transactional_id is not None,
        )
        end, identity = self.at + records, (producer.producer_id, producer.epoch)
        piece = Batch(start=self.at, end=end, data=memoryview(batch), producer=producer, sequence=sequence)
        if identity in self._met:
            self._add(piece)
        else:
            self._add_alone(piece)
            self._met.add(identity)

    def send_outcomes(self, outcomes: Sequence[TransactionOutcome]) -> None:
        """Write `outcomes`, one offset each; at most `OUTCOMES_MAX`."""
        self._add(ControlRecords(start=self.at, outcomes=outcomes))

    def skip_to(self, offset: int) -> None:
        """Continue at `offset`: other writers have written up to `offset`. Everything must be flushed before."""
        self.at = offset

    def flush(self) -> None:
        """Return when all in-sync replicas have everything."""
        while self._pending:
            lane = self._joined()
            lane.send()
            self._check()
            if self._pending and self._lane is lane:
                lane.receive()
            self._check()

    def close(self) -> None:
        """Leave the lane. Does not flush."""
        if self._lane is not None:
            self._lane.leave(self)
        self._lane, self._sent = None, 0

    def next_unsent(self) -> Piece | None:
        """Return the next piece for the lane, which sends the piece at once."""
        if self._sent == len(self._pending) or self._error is not None:
            return None
        try:
            self._guard()
        except OffsiteError as error:
            self._error = error
            return None
        self._sent += 1
        return self._pending[self._sent - 1]

    def take_answer(self, piece: Piece, answer: ProduceAnswer) -> None:
        """Take the lane's answer to the first pending piece. Raises errors that another connection may cure, and
        `LostTrackError`."""
        if self._error is not None:
            return
        if answer.error_code or (isinstance(piece, Batch) and answer.base_offset < 0):
            self._fail(piece, answer)
        elif isinstance(piece, Batch) and answer.base_offset != piece.start:
            self._error = self._judged_elsewhere(answer.base_offset, piece.start)
        else:
            self._sent -= 1
            self._pending.popleft()
            self._outage.reset()
            self._absence.reset()

    def end_lane(self, error: OffsiteError | None) -> None:
        """Note the end of the lane, for `error` or for another partition's error."""
        self._lane, self._sent, self._trouble = None, 0, error
        if error is not None:
            self._router.forget(self.partition)

    def _add_alone(self, piece: Piece) -> None:
        """Add the first piece of a producer, with nothing else in flight. A leader accepts any first sequence of an
        unknown producer: with a second batch in flight, a failed first batch would be replaced by the second."""
        self.flush()
        self._pending.append(piece)
        self.at = piece.end
        self.flush()

    def _add(self, piece: Piece) -> None:
        """Add a piece. The piece waits for the next one: meanwhile further partitions of the lane add pieces to the
        same request."""
        self._pending.append(piece)
        self.at = piece.end
        if len(self._pending) - self._sent == 1:
            return
        lane = self._joined()
        lane.send_round()
        self._check()
        while lane.is_full and self._lane is lane:
            lane.receive()
        self._check()

    def _check(self) -> None:
        if self._error is not None:
            self.close()
            raise self._error

    def _joined(self) -> Lane:
        """Return a lane, once the log is known to end at the start of the first pending piece."""
        while self._lane is None:
            self._check()
            trouble, self._trouble = self._trouble, None
            try:
                if trouble is not None:
                    self._wait(trouble)
                self._look()
                self._lane = self._lanes.join(self)
            except (*PASSING, NoSuchTopic) as error:
                if error is trouble:
                    raise
                self.end_lane(error)
        return self._lane

    def _wait(self, trouble: OffsiteError) -> None:
        """Wait, or raise `trouble` when the trouble has lasted too long."""
        (self._outage if isinstance(trouble, PASSING) else self._absence).wait(trouble)

    def _fail(self, piece: Piece, answer: ProduceAnswer) -> None:
        key, code = self.partition, answer.error_code
        if code in FENCED and isinstance(piece, Batch) and piece.producer.transactional_id is None:
            self._error = fenced_error(key)
            return
        error = broker_error(code, f"writing offset {piece.start} of {key}", detail=answer.detail)
        if isinstance(error, (*PASSING, NoSuchTopic)):
            raise error
        if code in LOST_TRACK:
            raise LostTrackError(error)
        self._error = error

    def _look(self) -> None:
        """Read the log, and drop the pending pieces found in the log."""
        # 1. Find the end of the log, once the log stands still and all in-sync replicas have it.
        start = self._pending[0].start
        end = settled_end_offset(self._router, self.partition, start=start, clock=self._clock)
        self._check_replicated(end)
        # 2. Refuse a shorter log: acknowledged records are lost.
        if end < start:
            raise KafkaProtocolError(
                f"{self.partition} ended at offset {start} before and ends at {end} now: the partition has lost "
                "records",
                hint="did an out-of-sync replica become leader (an unclean election)? Run the same command again",
            )
        # 3. Compare the log with the pending pieces, and drop the pieces found.
        log_range = LogRange(topic=self.partition.topic, partition=self.partition.partition, start=start, end=end)
        for item in PartitionReader(self._router, clock=self._clock).read(log_range):
            if isinstance(item, Chunk):
                for header in item.batches:
                    self._pass(header.view(item.data), header)
        # 4. The log must end exactly behind the last piece found.
        if end > start and end != (self._pending[0].start if self._pending else self.at):
            raise self._elsewhere(end, start)

    def _check_replicated(self, end: int) -> None:
        """Check that replicas have everything that the leader has. No consumer can read records before, and the records
        may still become visible."""
        leader = self._router.leader(self.partition)
        with self._router.lease_leader(self.partition) as connection:
            leader_end = LeaderAnswers(connection, self.partition, leader.epoch).end_of(leader.epoch).end
        if leader_end > end:
            raise KafkaTimeout(
                f"the leader of {self.partition} has offsets up to {leader_end}, but its replicas only up to {end}"
            )

    def _pass(self, batch: memoryview, header: BatchHeader) -> None:
        first = self._pending[0] if self._pending else None
        if first is None or header.base_offset != first.start or not first.take_match(batch, header):
            raise self._elsewhere(header.base_offset, first.start if first else self.at)
        if header.next_offset >= first.end:
            self._pending.popleft()
            self._outage.reset()
            self._absence.reset()

    def _judged_elsewhere(self, actual: int, expected: int) -> OffsiteError:
        """Return the error of `_elsewhere`, or the error raised meanwhile. `_elsewhere` may ask brokers during another
        partition's turn, and the other partition must not receive the error."""
        try:
            return self._elsewhere(actual, expected)
        except OffsiteError as error:
            return error

    def _elsewhere(self, actual: int, expected: int) -> OffsiteError:
        """Return the error for a log at offset `actual` where the sent piece is at `expected`."""
        return self._unexpected(min(actual, expected), max(actual, expected, min(actual, expected) + 1))
