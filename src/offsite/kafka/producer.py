"""A producer's identity towards one partition: id, epoch, and the sequence number that comes next.

Source: KIP-98 (idempotent producer, transactional ids), KIP-360 (epoch handling).
"""

from __future__ import annotations

from dataclasses import dataclass

from offsite.kafka.net.backoff import Backoff
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder, UnreadableError
from offsite.model.clock import Clock
from offsite.model.errors import KafkaTimeout, KafkaUnreachable, LeaderUnavailable

VERSION = 1
_SEQUENCES = 2**31  # sequence numbers wrap to 0 after 2^31 - 1
_NO_TRANSACTION_TIMEOUT_MS = 60_000  # meaningless without a transactional id, but the field must be positive


@dataclass(slots=True, kw_only=True)
class Producer:
    """The sequence runs per partition, so each partition written to needs a producer value of its own."""

    producer_id: int
    epoch: int
    transactional_id: str | None = None
    next_sequence: int = 0

    def claim(self, record_count: int) -> int:
        """The base sequence of a batch of that many records, which must then be sent, in this order."""
        claimed = self.next_sequence
        self.next_sequence = (claimed + record_count) % _SEQUENCES
        return claimed


def new_producer(router: Router, clock: Clock) -> Producer:
    """An idempotent, non-transactional producer nobody else has. Raises `KafkaUnavailable`, `Denied`."""
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
