"""Write raw batches into one partition: the way into Kafka.

The writer is an idempotent producer with a few requests in flight. Unacknowledged batches are sent again, in order and
with the same sequence numbers, after a lost connection, a broker restart or a leader change. The broker recognises
resent batches, so no batch is doubled and none overtakes. After a crash of *this* process the next process writes under
a higher epoch, or as another producer. The fate of the last sent batch is then read from the partition's end offset,
never assumed.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from offsite.kafka.net.backoff import MISSING_TOPIC_MAX_S, Backoff
from offsite.kafka.net.connection import Connection
from offsite.kafka.net.routing import Router
from offsite.kafka.offsets import high_watermark
from offsite.kafka.producer import FENCED, LOST_TRACK, LostTrackError, Producer, fenced_error, new_producer
from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.produce import VERSION, ProduceAnswer, ProduceFormat
from offsite.kafka.protocol.request import Api
from offsite.kafka.protocol.wire import UNREADABLE
from offsite.kafka.reader import PartitionReader
from offsite.log.batch import BatchHeader
from offsite.log.range import Chunk, LogRange, TopicPartition
from offsite.log.rewrite import for_produce
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import (
    KafkaProtocolError,
    KafkaTimeout,
    KafkaUnreachable,
    LeaderUnavailable,
    NoSuchTopic,
    OffsiteError,
    ProtectedTopic,
    check,
)
from offsite.model.names import PROTECTED_TOPICS

_IDENTITY = struct.Struct(">qhi")  # producer id, epoch, base sequence
_IDENTITY_POSITION = 43


def find_appended(
    router: Router, clock: Clock, topic_partition: TopicPartition, batches: Sequence[memoryview], *, start: int
) -> list[int]:
    """Return the base offsets of those `batches`, from the first on, that lie in the log at `start` or later.

    The batches are as `for_produce` left them, in order of sending. Raises the errors of `high_watermark` and of a
    reader.
    """
    end = max(start, high_watermark(router, topic_partition))
    log_range = LogRange(topic=topic_partition.topic, partition=topic_partition.partition, start=start, end=end)
    offsets: list[int] = []
    for item in PartitionReader(router, clock=clock).read(log_range):
        if isinstance(item, Chunk):
            offsets += _matches(item.batches, batches[len(offsets) :])
    return offsets


def _matches(headers: Iterable[BatchHeader], batches: Sequence[memoryview]) -> Iterable[int]:
    identities = [_IDENTITY.unpack_from(batch, _IDENTITY_POSITION) for batch in batches]
    matched = 0
    for header in headers:
        identity = (header.producer_id, header.producer_epoch, header.base_sequence)
        if matched < len(identities) and identity == identities[matched]:
            matched += 1
            yield header.base_offset


# The broker remembers the last five batches of a producer: a sixth resent batch could not be recognised.
MAX_IN_FLIGHT = 5
_COUNTS = struct.Struct(">i30xi")  # last offset delta and record count of a batch header
_COUNTS_POSITION = 23

OnAck = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    index: int
    batch: memoryview
    format: ProduceFormat
    transactional: bool
    identity: tuple[int, int]
    """Producer id and epoch."""


class PartitionWriter:
    """Writes batches into one partition, in order and exactly once. `on_ack(index, base_offset)` is called for every
    batch, in order of sending; `index` is the result of `send`.

    Guarantees of brokers (KIP-98): a leader remembers the sequence numbers of the last five batches per producer id. A
    remembered batch is acknowledged with the stored offset. A batch that skips numbers is refused, so that a batch
    cannot overtake a lost batch. A lower epoch of a producer id is refused as soon as a batch of a higher epoch arrived
    (KIP-360): the fence. The memory has limits: shorter after a restart, and absent for a producer whose records are
    all gone. In both cases the broker's answer is no verdict on the batch, and the writer reads the log to find the
    unacknowledged batches in it. (After a restart the broker remembers only the last batch: producer snapshots hold no
    more.)
    """

    def __init__(
        self,
        router: Router,
        topic_partition: TopicPartition,
        *,
        on_ack: OnAck | None = None,
        producer: Producer | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`producer`: the writer of batches outside of transactions, a new producer by default. Raises
        `ProtectedTopic`. The first request to the cluster comes with the first `send`."""
        if topic_partition.topic in PROTECTED_TOPICS:
            raise ProtectedTopic(f"{topic_partition.topic} belongs to Kafka itself: offsite never produces into it")
        self._router = router
        self._topic_partition = topic_partition
        self._on_ack = on_ack
        self._clock = clock or SystemClock()
        self._formats: dict[str | None, ProduceFormat] = {}
        self._own_producer = producer
        self._pending: deque[_Pending] = deque()
        self._acknowledged: set[tuple[int, int]] = set()  # producers whose batches the partition has taken
        self._sent = 0  # number of pending batches sent over this connection
        self._count = 0
        self._next_offset = -1  # at first the log's end, then the end of the acknowledged batches
        self._suspicion: OffsiteError | None = None
        self._lease = ExitStack()
        self._connection: Connection | None = None
        self._outage = Backoff(self._clock)
        self._absence = Backoff(self._clock, limit_s=MISSING_TOPIC_MAX_S)

    def send(self, batch: bytearray | memoryview, *, producer: Producer | None = None) -> int:
        """Send one whole batch without gaps, and rewrite the header in place. Returns the batch's index.

        The memory belongs to the writer until the batch is acknowledged. Blocks while `MAX_IN_FLIGHT` batches are in
        flight. `producer`: a transactional producer, else the writer's own. Raises the errors of `flush`.
        """
        producer = producer or self._default_producer()
        identity = (producer.producer_id, producer.epoch)
        self._prepare(batch, producer)
        index, self._count = self._count, self._count + 1
        self._pending.append(
            _Pending(
                index=index,
                batch=memoryview(batch),
                format=self._format(producer),
                transactional=producer.transactional_id is not None,
                identity=identity,
            )
        )
        # A broker accepts any first sequence of an unknown producer: with the second batch in flight, a failed first
        # batch would be replaced by the second.
        self._drive(MAX_IN_FLIGHT - 1 if identity in self._acknowledged else 0)
        return index

    def flush(self) -> None:
        """Return when all in-sync replicas have acknowledged every batch.

        Raises `WriterFenced` (the producer has a higher epoch by now), `TargetMismatch` (too large, bad record),
        `KafkaNotAuthorized`, `NoSuchTopic`, `KafkaProtocolError`, and `LeaderUnavailable`,
        `KafkaTimeout` or `KafkaUnreachable` when an outage lasts too long. The batch named in the error and all later
        batches were not acknowledged; the writer is of no further use.
        """
        self._drive(0)

    def close(self) -> None:
        """Return the connection. Does not flush."""
        self._connection = None
        self._lease.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _default_producer(self) -> Producer:
        if self._own_producer is None:
            self._own_producer = new_producer(self._router, self._clock)
        return self._own_producer

    def _prepare(self, batch: bytearray | memoryview, producer: Producer) -> None:
        last_delta, record_count = _COUNTS.unpack_from(batch, _COUNTS_POSITION)
        check(record_count == last_delta + 1 > 0, f"a batch of {record_count} records over {last_delta + 1} offsets")
        for_produce(
            batch,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.claim(record_count),
            transactional=producer.transactional_id is not None,
        )

    def _format(self, producer: Producer) -> ProduceFormat:
        transactional_id = producer.transactional_id
        if transactional_id not in self._formats:
            # The broker gives up before our socket does, so that we see the broker's reason.
            timeout_ms = self._router.config.request_timeout_ms // 2
            self._formats[transactional_id] = ProduceFormat(
                self._topic_partition, transactional_id=transactional_id, timeout_ms=timeout_ms
            )
        return self._formats[transactional_id]

    def _drive(self, allowed_in_flight: int) -> None:
        """Send unsent batches, and read acknowledgements until at most `allowed_in_flight` batches are in flight."""
        while True:
            try:
                self._look_for_appended()
                connection = self._send_unsent()
                while len(self._pending) > (0 if connection.login_due else allowed_in_flight):
                    self._take_ack(self._receive(connection))
            except (KafkaUnreachable, KafkaTimeout, LeaderUnavailable) as error:
                self._start_over()
                self._outage.wait(error)
            except NoSuchTopic as error:
                self._start_over()
                self._absence.wait(error)
            except LostTrackError as lost:
                self._start_over()
                self._suspicion = lost.error
            else:
                return

    def _look_for_appended(self) -> None:
        """Read the log after the broker lost track of sent batches. Missing batches are sent again."""
        if self._suspicion is None:
            return
        batches = [pending.batch for pending in self._pending]
        offsets = find_appended(self._router, self._clock, self._topic_partition, batches, start=self._next_offset)
        error, self._suspicion = self._suspicion, None
        for offset in offsets:
            self._acknowledge(offset)
        if not offsets:
            self._absence.wait(error)

    def _send_unsent(self) -> Connection:
        if self._next_offset < 0:
            self._next_offset = high_watermark(self._router, self._topic_partition)
        if self._connection is None:
            self._connection = self._lease.enter_context(self._router.lease_leader(self._topic_partition))
            self._connection.check_version(Api.PRODUCE, VERSION)
        while self._sent < len(self._pending):
            pending = self._pending[self._sent]
            self._connection.send(Api.PRODUCE, VERSION, [pending.format.head(len(pending.batch)), pending.batch])
            self._sent += 1
        return self._connection

    def _take_ack(self, answer: ProduceAnswer) -> None:
        self._sent -= 1
        if answer.error_code or answer.base_offset < 0:
            raise self._failure(answer)
        self._acknowledge(answer.base_offset)
        if answer.throttle_ms:
            self._clock.sleep(answer.throttle_ms / 1000)

    def _failure(self, answer: ProduceAnswer) -> OffsiteError | LostTrackError:
        pending = self._pending[0]
        context = f"producing batch {pending.index} into {self._topic_partition}"
        if answer.error_code in FENCED and not pending.transactional:
            return fenced_error(self._topic_partition)
        error = broker_error(answer.error_code, context, detail=answer.detail)
        return LostTrackError(error) if answer.error_code in LOST_TRACK else error

    def _acknowledge(self, base_offset: int) -> None:
        pending = self._pending.popleft()
        if base_offset < self._next_offset:
            raise KafkaProtocolError(
                f"{self._topic_partition} stored a batch at offset {base_offset}, although the partition ended at "
                f"{self._next_offset} before: the partition has lost records",
                hint="did an out-of-sync replica become leader (an unclean election)? Run the same command again",
            )
        (last_delta, _) = _COUNTS.unpack_from(pending.batch, _COUNTS_POSITION)
        self._next_offset = base_offset + last_delta + 1
        self._acknowledged.add(pending.identity)
        self._outage.reset()
        self._absence.reset()
        if self._on_ack is not None:
            self._on_ack(pending.index, base_offset)

    def _receive(self, connection: Connection) -> ProduceAnswer:
        """Receive an acknowledgement. An unreadable answer counts as a lost connection: sent batches are sent again,
        and recognised."""
        try:
            return self._pending[0].format.decode(connection.receive())
        except (*UNREADABLE, KafkaProtocolError) as error:
            connection.close()
            raise KafkaUnreachable(f"{connection.address} sent an unreadable answer to Produce") from error

    def _start_over(self) -> None:
        """Mark all pending batches as unsent; they go out over a new connection to the present leader."""
        if self._connection is not None:
            self._connection.close()
        self.close()
        self._sent = 0
        self._router.forget(self._topic_partition)
