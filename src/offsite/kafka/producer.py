"""A producer's identity towards one partition: id, epoch and next sequence number; and the meaning of a leader's
refusal.

Source: KIP-98 (idempotent producer, transactional ids), KIP-360 (epoch handling).
"""

from __future__ import annotations

from dataclasses import dataclass

from offsite.kafka.net.backoff import Backoff
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import (
    DUPLICATE_SEQUENCE_NUMBER,
    INVALID_PRODUCER_EPOCH,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    PRODUCER_FENCED,
    broker_error,
)
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder, UnreadableError
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock
from offsite.model.errors import KafkaTimeout, KafkaUnreachable, LeaderUnavailable, OffsiteError, WriterFenced
from offsite.model.journal import warned

VERSION = 1
FENCED = frozenset({INVALID_PRODUCER_EPOCH, PRODUCER_FENCED})
"""A higher epoch of the producer has written."""
LOST_TRACK = frozenset({NONE, OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER})
"""The broker has no, or not enough, memory of the producer: the batch may be in the log, or not. Success without an
offset counts too: a duplicate at an offset that the broker no longer knows."""
_SEQUENCES = 2**31  # sequence numbers wrap to 0 after 2^31 - 1
_NO_TRANSACTION_TIMEOUT_MS = 60_000  # meaningless without a transactional id, but the field must be positive


class LostTrackError(Exception):
    """A leader refused a batch because of the fate of an earlier batch. Only the log tells the fate."""

    def __init__(self, error: OffsiteError) -> None:
        super().__init__(error)
        self.error = error


def fenced_error(partition: TopicPartition) -> WriterFenced:
    """Return the error for a batch refused because a newer attempt writes into the partition."""
    warned("fence", why="a newer attempt writes there", topic=partition.topic, partition=partition.partition)
    return WriterFenced(
        f"a newer attempt writes into {partition}: the brokers rejected the batches of this attempt, and this attempt "
        "has stopped",
        hint="the newer attempt is not affected; run the same command again when the newer attempt has ended",
    )


@dataclass(slots=True, kw_only=True)
class Producer:
    """A producer. The sequence runs per partition, so every partition needs a `Producer` value."""

    producer_id: int
    epoch: int
    transactional_id: str | None = None
    next_sequence: int = 0

    def claim(self, record_count: int) -> int:
        """Return the base sequence of a batch of `record_count` records. The caller must send claimed batches, in order
        of the claims."""
        claimed = self.next_sequence
        self.next_sequence = (claimed + record_count) % _SEQUENCES
        return claimed


def new_producer(router: Router, clock: Clock) -> Producer:
    """Ask for an idempotent, non-transactional producer with a new id. Raises `KafkaUnavailable`, `Denied`."""
    backoff = Backoff(clock)
    while True:
        try:
            return router.call(_init_producer_id())
        except (KafkaUnreachable, KafkaTimeout, LeaderUnavailable) as error:
            backoff.wait(error)


def _init_producer_id() -> Request[Producer]:
    def parse(answer: Decoder) -> Producer:
        answer.i32()  # throttle time
        code, producer = answer.i16(), Producer(producer_id=answer.i64(), epoch=answer.i16())
        if code:
            raise broker_error(code, "asking for a producer id")
        if min(producer.producer_id, producer.epoch) < 0:
            raise UnreadableError(f"producer id {producer.producer_id} of epoch {producer.epoch}")
        return producer

    body = Encoder().string(None).i32(_NO_TRANSACTION_TIMEOUT_MS).done()
    return Request(api=Api.INIT_PRODUCER_ID, version=VERSION, body=body, parse=parse)
