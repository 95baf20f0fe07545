"""What is asked about transactions, in bytes: InitProducerId, AddPartitionsToTxn, EndTxn, and the two that describe.

Every answer is an error code and a value, because most codes mean "a little later". Versions are the last ones before
the compact encoding (KIP-98) where that is possible: taking an id over on a condition needs Kafka 2.5 (KIP-360),
describing 3.0 (KIP-664).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from offsite.kafka.producer import Producer
from offsite.kafka.protocol.broker_errors import INVALID_TRANSACTION_TIMEOUT, NONE, TRANSACTIONAL_ID_NOT_FOUND
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder, UnreadableError
from offsite.log.range import TopicPartition

T = TypeVar("T")

# EndTxn below version 5 leaves the epoch as it is (KIP-890): an id keeps it from one transaction to the next.
_INIT_VERSION, _ADD_VERSION, _END_VERSION, _DESCRIBE_VERSION = 3, 2, 1, 0
_SEQUENCES = 2**31


class Answer(NamedTuple, Generic[T]):
    """An error code, and the value that counts when it is 0."""

    error_code: int
    value: T


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTransaction:
    """What its coordinator remembers of a transactional id. `partitions` are those of the transaction under way."""

    producer_id: int
    epoch: int
    state: str
    partitions: frozenset[TopicPartition]

    @property
    def is_ending(self) -> bool:
        """Whether its outcome is decided, and not yet in all of its partitions."""
        return self.state.startswith("Prepare")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """What a partition's leader remembers of a producer id. `first_offset`: of its open transaction, or -1.
    `coordinator_epoch`: of whoever wrote its last outcome, or -1."""

    epoch: int
    next_sequence: int
    first_offset: int
    coordinator_epoch: int = -1


def init_producer_request(
    transactional_id: str, *, timeout_ms: int, expected: tuple[int, int] | None = None
) -> Request[Answer[Producer | None]]:
    """Take the id over: others who have it are shut out, what they left open is aborted. None: too long a timeout.

    `expected` (producer id and epoch): only if it is still theirs, or if nobody has ever used the id (KIP-360). The
    epoch before theirs counts as well, for an answer may have been lost.
    """
    producer_id, epoch = expected or (-1, -1)
    out = Encoder(flexible=True).string(transactional_id).i32(timeout_ms).i64(producer_id).i16(epoch)

    def parse(answer: Decoder) -> Answer[Producer | None]:
        answer.i32()  # throttle time
        code, given_id, given_epoch = answer.i16(), answer.i64(), answer.i16()
        if code == INVALID_TRANSACTION_TIMEOUT:
            return Answer(NONE, None)
        if code == NONE and min(given_id, given_epoch) < 0:
            raise UnreadableError(f"producer id {given_id} of epoch {given_epoch}")
        return Answer(code, Producer(producer_id=given_id, epoch=given_epoch, transactional_id=transactional_id))

    body = out.end().done()
    return Request(api=Api.INIT_PRODUCER_ID, version=_INIT_VERSION, body=body, parse=parse, flexible=True)


def add_partition_request(producer: Producer, partition: TopicPartition) -> Request[Answer[None]]:
    """Make the partition part of the producer's transaction, which begins with it. May be repeated."""
    out = Encoder().string(producer.transactional_id).i64(producer.producer_id).i16(producer.epoch)
    body = out.i32(1).string(partition.topic).i32(1).i32(partition.partition).done()

    def parse(answer: Decoder) -> Answer[None]:
        answer.i32()  # throttle time
        codes = [code for topic in answer.array(_topic_codes) for code in topic]
        return Answer(next((code for code in codes if code), NONE), None)

    return Request(api=Api.ADD_PARTITIONS_TO_TXN, version=_ADD_VERSION, body=body, parse=parse)


def end_request(producer: Producer, *, committed: bool) -> Request[Answer[None]]:
    """Decide the outcome. The answer comes before the markers are in the partitions' logs. May be repeated."""
    out = Encoder().string(producer.transactional_id).i64(producer.producer_id).i16(producer.epoch)

    def parse(answer: Decoder) -> Answer[None]:
        answer.i32()  # throttle time
        return Answer(answer.i16(), None)

    body = out.boolean(committed).done()
    return Request(api=Api.END_TXN, version=_END_VERSION, body=body, parse=parse)


def describe_transaction_request(transactional_id: str) -> Request[Answer[KnownTransaction | None]]:
    """A request for the transaction of an id. The answer is None for an id that was never used, or not for a week
    (transactional.id.expiration.ms)."""
    body = Encoder(flexible=True).array([transactional_id], Encoder.string).end().done()

    def parse(answer: Decoder) -> Answer[KnownTransaction | None]:
        answer.i32()  # throttle time
        (known,) = answer.array(_known)
        return known

    return Request(api=Api.DESCRIBE_TRANSACTIONS, version=_DESCRIBE_VERSION, body=body, parse=parse, flexible=True)


def describe_producers_request(partition: TopicPartition) -> Request[Answer[Mapping[int, ActiveProducer]]]:
    """Producer id → what the leader of `partition`, which must be the one asked, remembers of it."""
    out = Encoder(flexible=True).array(
        [partition], lambda each, key: each.string(key.topic).array([key.partition], Encoder.i32).end()
    )

    def parse(answer: Decoder) -> Answer[Mapping[int, ActiveProducer]]:
        answer.i32()  # throttle time
        ((described,),) = answer.array(_producers_of_topic)
        return described

    body = out.end().done()
    return Request(api=Api.DESCRIBE_PRODUCERS, version=_DESCRIBE_VERSION, body=body, parse=parse, flexible=True)


def _topic_codes(answer: Decoder) -> list[int]:
    answer.string()
    return answer.array(_partition_code)


def _partition_code(answer: Decoder) -> int:
    answer.i32()
    return answer.i16()


def _known(answer: Decoder) -> Answer[KnownTransaction | None]:
    code = answer.i16()
    answer.string()
    state = answer.string()
    answer.i32()  # timeout
    answer.i64()  # begun at
    producer_id, epoch = answer.i64(), answer.i16()
    partitions = frozenset(key for topic in answer.array(_topic_partitions) for key in topic)
    answer.end()
    if code == TRANSACTIONAL_ID_NOT_FOUND:
        return Answer(NONE, None)
    return Answer(code, KnownTransaction(producer_id=producer_id, epoch=epoch, state=state, partitions=partitions))


def _topic_partitions(answer: Decoder) -> list[TopicPartition]:
    topic, numbers = answer.string(), answer.array(Decoder.i32)
    answer.end()
    return [TopicPartition(topic=topic, partition=number) for number in numbers]


def _producers_of_topic(answer: Decoder) -> list[Answer[Mapping[int, ActiveProducer]]]:
    answer.string()
    partitions = answer.array(_producers_of_partition)
    answer.end()
    return partitions


def _producers_of_partition(answer: Decoder) -> Answer[Mapping[int, ActiveProducer]]:
    answer.i32()
    code = answer.i16()
    answer.nullable_string()  # error message
    producers = dict(answer.array(_producer))
    answer.end()
    return Answer(code, producers)


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
