"""Outcomes of transactions written into a log by us, where else a coordinator writes them (WriteTxnMarkers, KIP-98).

A leader takes them from whoever has ClusterAction on the cluster: coordinators are clients to it. It adds one control
record for each, and answers when all in-sync replicas have it. A control record of a producer without a transaction is
taken as well: it fills one offset, and no consumer of either isolation level sees it.

A leader refuses one of a lower epoch than it has seen of the producer, and one of a lower coordinator's epoch than
that of the producer's last outcome.
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
"""The epoch of a coordinator that has ended nothing of a producer: below that of any, so that those stay valid."""
_NO_TOPIC = "offsite/none"  # no topic's name has a slash
_PLAIN_VERSION, _FLEXIBLE_VERSION = 0, 1


class Outcome(NamedTuple):
    """The end of a transaction of that producer; without a transaction, one offset without a record."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int = NO_COORDINATOR


def may_write_outcomes(router: Router) -> bool:
    """Whether a broker takes them from us: it tells by its answer to one for a topic that cannot be. (What brokers say
    of our rights on the cluster needs Describe on it.) Raises as a router does."""
    nowhere = TopicPartition(topic=_NO_TOPIC, partition=0)
    with router.lease_any() as connection:
        flexible = connection.has_version(Api.WRITE_TXN_MARKERS, _FLEXIBLE_VERSION)
        request = write_outcomes_request(nowhere, [Outcome(0, 0, committed=False)], flexible=flexible)
        return connection.call(request) == UNKNOWN_TOPIC_OR_PARTITION


def write_outcomes_request(partition: TopicPartition, outcomes: Sequence[Outcome], *, flexible: bool) -> Request[int]:
    """Write these into the partition, in their order. The answer is an error code, of one of them; those before it may
    be in the log. `flexible`: the only encoding since Kafka 4.0, which 2.8 brought."""
    version = _FLEXIBLE_VERSION if flexible else _PLAIN_VERSION

    def put(out: Encoder, outcome: Outcome) -> None:
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
