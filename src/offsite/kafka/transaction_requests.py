"""Requests about transactions in bytes: InitProducerId, AddPartitionsToTxn, EndTxn, DescribeTransactions,
DescribeProducers.

Every answer is an error code and a value, because most codes mean "a little later". Versions are the last before the
compact encoding (KIP-98) where possible: a conditional take-over needs Kafka 2.5 (KIP-360), descriptions need 3.0
(KIP-664).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from offsite.kafka.producer import Producer
from offsite.kafka.protocol.broker_errors import INVALID_TRANSACTION_TIMEOUT, NONE, TRANSACTIONAL_ID_NOT_FOUND
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder, UnreadableError, partition_code
from offsite.log.range import TopicPartition

T = TypeVar("T")

# EndTxn below version 5 leaves the epoch unchanged (KIP-890): an id keeps the epoch from transaction to transaction.
_INIT_VERSION, _ADD_VERSION, _END_VERSION, _DESCRIBE_VERSION = 3, 2, 1, 0
_SEQUENCES = 2**31


class CoordinatorAnswer(NamedTuple, Generic[T]):
    """An error code, and a value that counts when the code is 0."""

    error_code: int
    value: T


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransaction:
    """A coordinator's memory of a transactional id. `partitions`: partitions of the open transaction."""

    producer_id: int
    epoch: int
    state: str
    partitions: frozenset[TopicPartition]

    @property
    def is_ending(self) -> bool:
        """Whether the outcome is decided, and not yet in all partitions."""
        return self.state.startswith("Prepare")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """A leader's memory of a producer id. `first_offset`: of the open transaction, or -1. `coordinator_epoch`: of the
    last outcome's writer, or -1."""

    epoch: int
    next_sequence: int
    first_offset: int
    coordinator_epoch: int = -1


def init_producer_request(
    transactional_id: str, *, timeout_ms: int, expected: tuple[int, int] | None = None
) -> Request[CoordinatorAnswer[Producer | None]]:
    """Take over the id: earlier owners are shut out, open transactions are aborted. The value None means a timeout too
    long.

    `expected` (producer id and epoch): take over only from this owner, or if nobody has ever used the id (KIP-360). The
    previous epoch of the owner counts too, because an answer may have been lost.
    """
    producer_id, epoch = expected or (-1, -1)
    out = Encoder(flexible=True).string(transactional_id).i32(timeout_ms).i64(producer_id).i16(epoch)

    def read(answer: Decoder) -> CoordinatorAnswer[Producer | None]:
        code, given_id, given_epoch = answer.i16(), answer.i64(), answer.i16()
        if code == INVALID_TRANSACTION_TIMEOUT:
            return CoordinatorAnswer(NONE, None)
        if code == NONE and min(given_id, given_epoch) < 0:
            raise UnreadableError(f"producer id {given_id} of epoch {given_epoch}")
        return CoordinatorAnswer(
            code, Producer(producer_id=given_id, epoch=given_epoch, transactional_id=transactional_id)
        )

    body = out.end().done()
    return Request(api=Api.INIT_PRODUCER_ID, version=_INIT_VERSION, body=body, read=read, flexible=True)


def add_partition_request(producer: Producer, partition: TopicPartition) -> Request[CoordinatorAnswer[None]]:
    """Add the partition to the producer's transaction, and begin the transaction. May be repeated."""
    out = Encoder().string(producer.transactional_id).i64(producer.producer_id).i16(producer.epoch)

    def read(answer: Decoder) -> CoordinatorAnswer[None]:
        codes = answer.topics(partition_code).values()
        return CoordinatorAnswer(next((code for code in codes if code), NONE), None)

    body = out.topics([partition]).done()
    return Request(api=Api.ADD_PARTITIONS_TO_TXN, version=_ADD_VERSION, body=body, read=read)


def end_request(producer: Producer, *, committed: bool) -> Request[CoordinatorAnswer[None]]:
    """Decide the outcome. The answer comes before the markers are in the partitions' logs. May be repeated."""
    out = Encoder().string(producer.transactional_id).i64(producer.producer_id).i16(producer.epoch)

    def read(answer: Decoder) -> CoordinatorAnswer[None]:
        return CoordinatorAnswer(answer.i16(), None)

    body = out.boolean(committed).done()
    return Request(api=Api.END_TXN, version=_END_VERSION, body=body, read=read)


def describe_transaction_request(transactional_id: str) -> Request[CoordinatorAnswer[DescribedTransaction | None]]:
    """Request the transaction of an id. The answer is None for an id never used, or not used for a week
    (transactional.id.expiration.ms)."""
    body = Encoder(flexible=True).array([transactional_id], Encoder.string).end().done()

    def read(answer: Decoder) -> CoordinatorAnswer[DescribedTransaction | None]:
        (transaction,) = answer.array(_known)
        return transaction

    return Request(api=Api.DESCRIBE_TRANSACTIONS, version=_DESCRIBE_VERSION, body=body, read=read, flexible=True)


def describe_producers_request(partition: TopicPartition) -> Request[CoordinatorAnswer[Mapping[int, ActiveProducer]]]:
    """Producer id → memory of the leader of `partition`. The asked broker must be the leader."""

    def read(answer: Decoder) -> CoordinatorAnswer[Mapping[int, ActiveProducer]]:
        (described,) = answer.topics(_producers_of_partition).values()
        return described

    body = Encoder(flexible=True).topics([partition]).end().done()
    return Request(api=Api.DESCRIBE_PRODUCERS, version=_DESCRIBE_VERSION, body=body, read=read, flexible=True)


def _known(answer: Decoder) -> CoordinatorAnswer[DescribedTransaction | None]:
    code = answer.i16()
    answer.string()
    state = answer.string()
    answer.i32()  # timeout
    answer.i64()  # begun at
    producer_id, epoch = answer.i64(), answer.i16()
    partitions = frozenset(answer.topics(lambda numbers, topic: (TopicPartition(topic, numbers.i32()), None)))
    answer.end()
    if code == TRANSACTIONAL_ID_NOT_FOUND:
        return CoordinatorAnswer(NONE, None)
    return CoordinatorAnswer(
        code, DescribedTransaction(producer_id=producer_id, epoch=epoch, state=state, partitions=partitions)
    )


def _producers_of_partition(
    answer: Decoder, topic: str
) -> tuple[TopicPartition, CoordinatorAnswer[Mapping[int, ActiveProducer]]]:
    partition, code = answer.i32(), answer.i16()
    answer.nullable_string()  # error message
    producers = dict(answer.array(_producer))
    answer.end()
    return TopicPartition(topic=topic, partition=partition), CoordinatorAnswer(code, producers)


def _producer(answer: Decoder) -> tuple[int, ActiveProducer]:
    producer_id = answer.i64()
    epoch, last_sequence = answer.i32(), answer.i32()
    answer.i64()  # last time
    coordinator_epoch, first_offset = answer.i32(), answer.i64()
    answer.end()
    return producer_id, ActiveProducer(
        epoch=epoch,
        next_sequence=(last_sequence + 1) % _SEQUENCES,
        first_offset=first_offset,
        coordinator_epoch=coordinator_epoch,
    )
