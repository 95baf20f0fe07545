"""Writes a log of which every offset is known beforehand: batches of several producers, and outcomes between them.

Everything goes over one connection, many requests at a time: a leader carries them out in the order in which they came.
So what is sent last need not wait for what was sent first, whoever its producer is.

Nothing is assumed of what has no answer. After a lost connection, or an answer that something was not taken, the log is
read from the first thing without an answer on, and has to hold what was sent, in this order: what it holds is done, the
rest is sent again. Anything else there (a request that was taken although one before it was not, a stranger's record)
is an error, and not one record is added behind it. Brokers fence producers, so whoever sends something late, and was
overtaken, is refused.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from offsite.kafka.net.backoff import MISSING_TOPIC_MAX_S, Backoff
from offsite.kafka.net.connection import Connection
from offsite.kafka.net.routing import Router
from offsite.kafka.offsets import settled_end_offset
from offsite.kafka.producer import Producer
from offsite.kafka.protocol.broker_errors import (
    DUPLICATE_SEQUENCE_NUMBER,
    INVALID_PRODUCER_EPOCH,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    PRODUCER_FENCED,
    broker_error,
)
from offsite.kafka.protocol.produce import VERSION, ProduceAnswer, ProduceFormat
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.reader import PartitionReader
from offsite.kafka.transactions.outcomes import Outcome, write_outcomes_request
from offsite.log.batch import BatchHeader
from offsite.log.chunk import Chunk
from offsite.log.markers import control_type
from offsite.log.range import LogRange, TopicPartition
from offsite.log.rewrite import for_produce
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import (
    KafkaProtocolError,
    KafkaTimeout,
    KafkaUnreachable,
    LeaderUnavailable,
    NoSuchTopic,
    OffsiteError,
    WriterFenced,
)
from offsite.model.journal import warned
from offsite.model.size import MIB

REQUESTS_MAX = 64
"""Under way at a time."""
BYTES_MAX = 8 * MIB
"""Of batches under way at a time, but for one that is larger."""
OUTCOMES_MAX = 1_000
"""In one request."""
_OUTCOME_BYTES = 78  # a batch with one control record, as the log has it
_FENCED = frozenset({INVALID_PRODUCER_EPOCH, PRODUCER_FENCED})
_LOST_TRACK = frozenset({NONE, OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER})
"""No verdict on the batch: one before it was not taken, or it is in the log already."""

Unexpected = Callable[[int, int], OffsiteError]
"""The error for offsets `[start, end)` of the log, which do not hold what was sent."""


class _LostTrackError(Exception):
    def __init__(self, error: OffsiteError) -> None:
        super().__init__(error)
        self.error = error


@dataclass(slots=True, kw_only=True)
class _Batch:
    """A batch at `[start, end)`. `sequence`: of its first record."""

    start: int
    end: int
    data: memoryview
    format: ProduceFormat
    producer: Producer
    sequence: int

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    def send(self, connection: Connection) -> None:
        connection.send(Api.PRODUCE, VERSION, [self.format.head(len(self.data)), self.data])

    def passed(self, batch: memoryview, header: BatchHeader) -> bool:  # noqa: ARG002  # as outcomes have it
        """Whether a batch of the log at `start` is this one."""
        mine = (self.producer.producer_id, self.producer.epoch, self.sequence, self.end - self.start)
        return mine == (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count)


@dataclass(slots=True, kw_only=True)
class _Outcomes:
    """Control records from `start` on, one for each outcome."""

    start: int
    partition: TopicPartition
    outcomes: Sequence[Outcome]
    request: Request[int] | None = None

    @property
    def end(self) -> int:
        return self.start + len(self.outcomes)

    @property
    def size_bytes(self) -> int:
        return _OUTCOME_BYTES * len(self.outcomes)

    def send(self, connection: Connection) -> None:
        flexible = connection.has_version(Api.WRITE_TXN_MARKERS, 1)
        self.request = write_outcomes_request(self.partition, self.outcomes, flexible=flexible)
        connection.post(self.request)

    def passed(self, batch: memoryview, header: BatchHeader) -> bool:
        """Whether a batch of the log at `start` is the first of these, which then is none of them any more."""
        first, marker = self.outcomes[0], control_type(batch, header) if header.is_control else None
        is_same = (header.producer_id, header.producer_epoch) == (first.producer_id, first.producer_epoch)
        if marker is None or not is_same or (marker.kind == "commit") != first.committed:
            return False
        self.start, self.outcomes = self.start + 1, self.outcomes[1:]
        return True


class LogWriter:
    """Writes into one partition from offset `at` on. `guard` is called before anything goes out, again or for the first
    time, and may raise. Nothing is asked of the cluster before something is to be sent.

    Every method raises what `guard` and `unexpected` raise, `WriterFenced`, `TransactionLost`, `TargetMismatch`,
    `KafkaNotAuthorized`, `NoSuchTopic`, `KafkaProtocolError`, and `KafkaUnavailable` when an outage lasts too long;
    the writer is of no more use then.
    """

    def __init__(  # noqa: PLR0913  # keyword-only settings
        self,
        router: Router,
        partition: TopicPartition,
        *,
        at: int,
        unexpected: Unexpected,
        guard: Callable[[], None],
        clock: Clock | None = None,
    ) -> None:
        self.at = at
        """Where the next thing begins: everything below was sent."""
        self._router, self._partition = router, partition
        self._unexpected, self._guard = unexpected, guard
        self._clock = clock or SystemClock()
        self._formats: dict[str | None, ProduceFormat] = {}
        self._pending: deque[_Batch | _Outcomes] = deque()
        self._sent = self._sent_bytes = 0  # how many of the pending ones this connection has carried
        self._met: set[tuple[int, int]] = set()  # producer ids and epochs of which the leader has a batch
        self._connection: Connection | None = None
        self._lease = ExitStack()
        self._outage = Backoff(self._clock)
        self._absence = Backoff(self._clock, limit_s=MISSING_TOPIC_MAX_S)

    def batch(self, batch: bytearray | memoryview, records: int, producer: Producer) -> None:
        """Send one whole batch without gaps, rewriting its header in place. The memory belongs to the writer until it
        is flushed."""
        sequence, transactional_id = producer.claim(records), producer.transactional_id
        for_produce(
            batch,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=transactional_id is not None,
        )
        sent = _Batch(
            start=self.at,
            end=self.at + records,
            data=memoryview(batch),
            format=self._format(transactional_id),
            producer=producer,
            sequence=sequence,
        )
        self._add(sent, is_alone=(producer.producer_id, producer.epoch) not in self._met)
        self._met.add((producer.producer_id, producer.epoch))

    def outcomes(self, outcomes: Sequence[Outcome]) -> None:
        """Write these, each into one offset; at most `OUTCOMES_MAX`."""
        self._add(_Outcomes(start=self.at, partition=self._partition, outcomes=outcomes))

    def skip_to(self, offset: int) -> None:
        """What comes next begins at `offset`: others have written up to there. Everything must be flushed."""
        self.at = offset
        self._give_back()

    def flush(self) -> None:
        """Return when everything is in the log of all in-sync replicas."""
        if self._pending:
            self._drive(0)

    def close(self) -> None:
        """Give the connection back. Does not flush."""
        if self._sent and self._connection is not None:
            self._connection.close()
        self._give_back()

    def _format(self, transactional_id: str | None) -> ProduceFormat:
        if transactional_id not in self._formats:
            # The broker gives up before our socket does, so that its reason is what we see.
            timeout_ms = self._router.config.request_timeout_ms // 2
            self._formats[transactional_id] = ProduceFormat(
                self._partition, transactional_id=transactional_id, timeout_ms=timeout_ms
            )
        return self._formats[transactional_id]

    def _add(self, piece: _Batch | _Outcomes, *, is_alone: bool = False) -> None:
        """A leader takes any first sequence of a producer that it does not know. Were the second batch under way when
        the first one failed, it would stand in its place: so the first one is alone (`is_alone`)."""
        if is_alone:
            self.flush()
        self._pending.append(piece)
        self.at = piece.end
        self._drive(0 if is_alone else REQUESTS_MAX)

    def _drive(self, requests: int) -> None:
        """Send what is not sent, then read answers until no more than so many are under way."""
        while True:
            try:
                connection = self._connection or self._connected()
                self._send(connection)
                while self._sent > requests or (self._sent > 1 and self._sent_bytes > BYTES_MAX):
                    self._take_answer(connection)
            except (KafkaUnreachable, KafkaTimeout, LeaderUnavailable) as error:
                self._start_over()
                self._outage.wait(error)
            except NoSuchTopic as error:
                self._start_over()
                self._absence.wait(error)
            except _LostTrackError as lost:
                self._start_over()
                self._absence.wait(lost.error)
            else:
                return

    def _connected(self) -> Connection:
        """A connection to the leader, when the log is known to end where the first pending thing begins."""
        self._look()
        connection = self._lease.enter_context(self._router.lease_leader(self._partition))
        connection.check_version(Api.PRODUCE, VERSION)
        self._connection = connection
        return connection

    def _send(self, connection: Connection) -> None:
        if self._sent < len(self._pending):
            self._guard()
        while self._sent < len(self._pending):
            piece = self._pending[self._sent]
            piece.send(connection)
            self._sent += 1
            self._sent_bytes += piece.size_bytes

    def _take_answer(self, connection: Connection) -> None:
        piece = self._pending[0]
        throttle_ms = 0
        if isinstance(piece, _Batch):
            answer = self._receive(connection, piece.format)
            throttle_ms = answer.throttle_ms
            if answer.error_code or answer.base_offset < 0:
                if answer.error_code in _FENCED and piece.producer.transactional_id is None:
                    raise self._fenced()
                raise self._failure(answer.error_code, piece.start, answer.detail)
            if answer.base_offset != piece.start:
                raise self._elsewhere(answer.base_offset, piece.start)
        elif piece.request is not None and (code := connection.collect(piece.request)):
            raise self._failure(code, piece.start)
        self._sent -= 1
        self._sent_bytes -= piece.size_bytes
        self._pending.popleft()
        self._outage.reset()
        self._absence.reset()
        if throttle_ms:
            self._clock.sleep(throttle_ms / 1000)

    def _receive(self, connection: Connection, format_: ProduceFormat) -> ProduceAnswer:
        """An answer that cannot be read is as good as a lost connection."""
        try:
            return format_.decode(connection.receive())
        except (struct.error, IndexError, KafkaProtocolError) as error:
            connection.close()
            raise KafkaUnreachable(f"{connection.address} sent an unreadable answer to Produce") from error

    def _failure(self, code: int, offset: int, detail: str = "") -> OffsiteError | _LostTrackError:
        error = broker_error(code, f"writing offset {offset} of {self._partition}", detail=detail)
        return _LostTrackError(error) if code in _LOST_TRACK else error

    def _fenced(self) -> WriterFenced:
        key = self._partition
        warned("fence", why="a newer attempt writes there", topic=key.topic, partition=key.partition)
        return WriterFenced(
            f"a newer attempt writes into {key}: the brokers refused what this one sent, and nothing more is sent",
            hint="nothing is wrong with the newer one; run the same command again when it has ended",
        )

    def _look(self) -> None:
        """Read what the log holds of what is pending; that is done."""
        start = self._pending[0].start
        end = settled_end_offset(self._router, self._partition, start=start, clock=self._clock)
        if end < start:
            raise KafkaProtocolError(
                f"{self._partition} ended at {start} before and ends at {end}: it has lost records",
                hint="was a replica elected that was not in sync? Run the same command again",
            )
        log_range = LogRange(topic=self._partition.topic, partition=self._partition.partition, start=start, end=end)
        for item in PartitionReader(self._router, clock=self._clock).read(log_range):
            if isinstance(item, Chunk):
                for header in item.batches:
                    self._pass(header.view(item.data), header)
        if end > start and end != (self._pending[0].start if self._pending else self.at):
            raise self._elsewhere(end, start)

    def _pass(self, batch: memoryview, header: BatchHeader) -> None:
        first = self._pending[0] if self._pending else None
        if first is None or header.base_offset != first.start or not first.passed(batch, header):
            raise self._elsewhere(header.base_offset, first.start if first else self.at)
        if header.next_offset >= first.end:
            self._pending.popleft()

    def _elsewhere(self, found: int, expected: int) -> OffsiteError:
        """The log is at offset `found` where what was sent is at `expected`."""
        return self._unexpected(min(found, expected), max(found, expected, min(found, expected) + 1))

    def _start_over(self) -> None:
        """What is pending may be in the log or not: see, and send the rest over a new connection to whoever leads."""
        if self._connection is not None:
            self._connection.close()
        self._give_back()
        self._router.forget(self._partition)

    def _give_back(self) -> None:
        self._sent = self._sent_bytes = 0
        self._connection = None
        self._lease.close()
