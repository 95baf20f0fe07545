"""A producer's identity towards one partition: id, epoch, next sequence number; what a leader's refusal means,
and the outcomes of its transactions.

Source: KIP-98 (idempotent producer, transactional ids, WriteTxnMarkers), KIP-360 (epoch handling).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from offsite.kafka.net.backoff import through_outage
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import (
    DUPLICATE_SEQUENCE_NUMBER,
    INVALID_PRODUCER_EPOCH,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    PRODUCER_FENCED,
    UNKNOWN_TOPIC_OR_PARTITION,
    broker_error,
)
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder, UnreadableError, partition_code
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError, WriterFenced
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
    return through_outage(lambda: router.call(_init_producer_id()), clock)


def _init_producer_id() -> Request[Producer]:
    def read(answer: Decoder) -> Producer:
        code, producer = answer.i16(), Producer(producer_id=answer.i64(), epoch=answer.i16())
        if code:
            raise broker_error(code, "asking for a producer id")
        if min(producer.producer_id, producer.epoch) < 0:
            raise UnreadableError(f"producer id {producer.producer_id} of epoch {producer.epoch}")
        return producer

    body = Encoder().string(None).i32(_NO_TRANSACTION_TIMEOUT_MS).done()
    return Request(api=Api.INIT_PRODUCER_ID, version=VERSION, body=body, read=read)


NO_COORDINATOR = 0
"""The epoch of a coordinator that has ended nothing of a producer: below every real epoch, so real coordinators stay
valid."""
_IMPOSSIBLE_TOPIC = "offsite/none"  # no topic's name has a slash
_PLAIN_VERSION, _FLEXIBLE_VERSION = 0, 1


class TransactionOutcome(NamedTuple):
    """The end of a transaction of the producer. Without a transaction: one offset without a record."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int = NO_COORDINATOR


CLUSTER_ACTION = "the right ClusterAction on the cluster"
COMMITS_OF_CLIENTS = "brokers that let clients commit transactions (these let clients only abort)"
MARKERS_API = "brokers with the API WriteTxnMarkers"


def missing_for_outcomes(router: Router) -> str:
    """Return what is missing for outcomes from this client, in words for people; empty when a broker accepts them. The
    test is an outcome for a topic with an impossible name: a broker's list of rights on the cluster would need
    Describe. Brokers of other makers (Redpanda) take aborts alone, or have no such API. Raises the errors of a router.
    """
    nowhere = TopicPartition(topic=_IMPOSSIBLE_TOPIC, partition=0)
    with router.lease_any() as connection:
        flexible = connection.has_version(Api.WRITE_TXN_MARKERS, _FLEXIBLE_VERSION)
        if not flexible and not connection.has_version(Api.WRITE_TXN_MARKERS, _PLAIN_VERSION):
            return MARKERS_API
        taken = {}
        for committed in (False, True):
            outcome = TransactionOutcome(0, 0, committed=committed)
            code = connection.call(write_outcomes_request(nowhere, [outcome], flexible=flexible))
            taken[committed] = code == UNKNOWN_TOPIC_OR_PARTITION
    if all(taken.values()):
        return ""
    return COMMITS_OF_CLIENTS if taken[False] else CLUSTER_ACTION


def write_outcomes_request(
    partition: TopicPartition, outcomes: Sequence[TransactionOutcome], *, flexible: bool
) -> Request[int]:
    """Write `outcomes` into the partition, in order. The answer is the error code of one outcome; earlier outcomes may
    be in the log. `flexible`: the encoding of Kafka 2.8, and the only encoding since 4.0.

    A leader accepts outcomes from any client with ClusterAction on the cluster: to a leader, coordinators are clients.
    The leader adds one control record per outcome, and answers when all in-sync replicas have the records. A control
    record of a producer without a transaction is accepted too: the record fills one offset, and no consumer of either
    isolation level sees it. A leader refuses an outcome of a lower producer epoch than seen before, and of a lower
    coordinator epoch than the producer's last outcome.
    """
    version = _FLEXIBLE_VERSION if flexible else _PLAIN_VERSION

    def put(out: Encoder, outcome: TransactionOutcome) -> None:
        out.i64(outcome.producer_id).i16(outcome.producer_epoch).boolean(outcome.committed)
        out.topics([partition]).i32(outcome.coordinator_epoch).end()

    body = Encoder(flexible=flexible).array(outcomes, put).end().done()
    return Request(api=Api.WRITE_TXN_MARKERS, version=version, body=body, read=_worst_code, flexible=flexible)


def _worst_code(answer: Decoder) -> int:
    codes = [code for producer in answer.array(_codes_of_producer) for code in producer.values()]
    return next((code for code in codes if code), NONE)


def _codes_of_producer(answer: Decoder) -> Mapping[TopicPartition, int]:
    answer.i64()
    codes = answer.topics(partition_code)
    answer.end()
    return codes
