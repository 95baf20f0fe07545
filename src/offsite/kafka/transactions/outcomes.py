"""Write outcomes of transactions into a log, in place of a coordinator (WriteTxnMarkers, KIP-98).

A leader accepts outcomes from any client with ClusterAction on the cluster: to a leader, coordinators are clients. The
leader adds one control record per outcome, and answers when all in-sync replicas have the records. A control record of
a producer without a transaction is accepted too: the record fills one offset, and no consumer of either isolation level
sees it.

A leader refuses an outcome of a lower producer epoch than seen before, and of a lower coordinator epoch than the
producer's last outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import NONE, UNKNOWN_TOPIC_OR_PARTITION
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.log.range import TopicPartition

NO_COORDINATOR = 0
"""The epoch of a coordinator that has ended nothing of a producer: below every real epoch, so real coordinators stay
valid."""
_NO_TOPIC = "offsite/none"  # no topic's name has a slash
_PLAIN_VERSION, _FLEXIBLE_VERSION = 0, 1


class TransactionOutcome(NamedTuple):
    """The end of a transaction of the producer. Without a transaction: one offset without a record."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int = NO_COORDINATOR


def may_write_outcomes(router: Router) -> bool:
    """Whether a broker accepts outcomes from this client. The test is an outcome for a topic with an impossible name: a
    broker's list of rights on the cluster would need Describe. Raises the errors of a router."""
    nowhere = TopicPartition(topic=_NO_TOPIC, partition=0)
    with router.lease_any() as connection:
        flexible = connection.has_version(Api.WRITE_TXN_MARKERS, _FLEXIBLE_VERSION)
        request = write_outcomes_request(nowhere, [TransactionOutcome(0, 0, committed=False)], flexible=flexible)
        return connection.call(request) == UNKNOWN_TOPIC_OR_PARTITION


def write_outcomes_request(
    partition: TopicPartition, outcomes: Sequence[TransactionOutcome], *, flexible: bool
) -> Request[int]:
    """Write `outcomes` into the partition, in order. The answer is the error code of one outcome; earlier outcomes may
    be in the log. `flexible`: the encoding of Kafka 2.8, and the only encoding since 4.0."""
    version = _FLEXIBLE_VERSION if flexible else _PLAIN_VERSION

    def put(out: Encoder, outcome: TransactionOutcome) -> None:
        out.i64(outcome.producer_id).i16(outcome.producer_epoch).boolean(outcome.committed)
        out.array([partition], _put_topic).i32(outcome.coordinator_epoch).end()

    body = Encoder(flexible=flexible).array(outcomes, put).end().done()
    return Request(api=Api.WRITE_TXN_MARKERS, version=version, body=body, parse=_worst, flexible=flexible)


def _put_topic(out: Encoder, partition: TopicPartition) -> None:
    out.string(partition.topic).array([partition.partition], Encoder.i32).end()


def _worst(answer: Decoder) -> int:
    codes = [code for producer in answer.array(_producer) for topic in producer for code in topic]
    return next((code for code in codes if code), NONE)


def _producer(answer: Decoder) -> list[list[int]]:
    answer.i64()
    topics = answer.array(_topic)
    answer.end()
    return topics


def _topic(answer: Decoder) -> list[int]:
    answer.string()
    codes = answer.array(_partition)
    answer.end()
    return codes


def _partition(answer: Decoder) -> int:
    answer.i32()
    code = answer.i16()
    answer.end()
    return code
