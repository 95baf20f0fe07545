"""The Produce API: the bytes in front of batches, and the broker's acknowledgements. For one batch of one partition,
and for one batch each of several partitions."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from offsite.kafka.protocol.wire import Decoder, Encoder, bounded_throttle_ms
from offsite.log.range import TopicPartition
from offsite.model.errors import LeaderUnavailable

VERSION = 8  # Kafka 2.4; the last version without the compact encoding, the first with errors per record
_ALL_IN_SYNC = -1
_COUNT = struct.Struct(">i")
_LENGTH = struct.Struct(">h")
# Number, error, base offset, append time, log start, no record errors, no message.
_PLAIN_PARTITION = struct.Struct(">ihq16xih")
_NO_MESSAGE = -1
_HEADS = 256
"""The bytes in front of batches repeat again and again."""
_PARTITION = struct.Struct(">ii")  # number, and bytes of its batch
# Error, base offset, append time, log start, no record errors, no message, throttle time.
_PLAIN_RESULT = struct.Struct(">hq16x4x2xi")


class ProduceAnswer(NamedTuple):
    """A broker's acknowledgement of one batch. `base_offset`: the batch's offset, or -1. `detail`: the broker's text
    about a refused record."""

    error_code: int
    base_offset: int
    throttle_ms: int
    detail: str


class ProduceFormat:
    """The bytes of Produce requests and answers for one partition.

    Everything in front of the batch except the length is constant, and made once; likewise the head of an answer
    without an error, and the position of the fields behind.
    """

    def __init__(self, topic_partition: TopicPartition, *, transactional_id: str | None, timeout_ms: int) -> None:
        out = Encoder().string(transactional_id).i16(_ALL_IN_SYNC).i32(timeout_ms)
        self._place = Encoder().i32(1).string(topic_partition.topic).i32(1).i32(topic_partition.partition).done()
        self._head = out.done() + self._place
        self._topic_partition = topic_partition

    def head(self, batch_bytes: int) -> bytes:
        """Return the bytes in front of a batch of `batch_bytes`."""
        return self._head + _COUNT.pack(batch_bytes)

    def decode(self, data: memoryview) -> ProduceAnswer:
        """Decode the acknowledgement in `data`.

        Raises one of `UNREADABLE` on bytes that are no answer, and `LeaderUnavailable` on an answer without
        the partition: nothing was acknowledged, and the batch may be sent again.
        """
        result = len(self._place)
        if len(data) == result + _PLAIN_RESULT.size and data[:result] == self._place:
            error_code, base_offset, throttle_ms = _PLAIN_RESULT.unpack_from(data, result)
            return ProduceAnswer(
                error_code=error_code, base_offset=base_offset, throttle_ms=bounded_throttle_ms(throttle_ms), detail=""
            )
        return self._decode_detailed(data)

    def _decode_detailed(self, data: memoryview) -> ProduceAnswer:
        answer = parse_produced(data).get(self._topic_partition)
        if answer is None:
            raise LeaderUnavailable(f"the answer to a batch for {self._topic_partition} leaves the partition out")
        return answer


def produce_parts(
    batches: Sequence[tuple[TopicPartition, memoryview]], *, transactional_id: str | None, timeout_ms: int
) -> list[bytes | memoryview]:
    """Return the body of a request with `batches`, at most one per partition, to be sent back to back."""
    topics: dict[str, list[tuple[int, memoryview]]] = {}
    for key, batch in batches:
        topics.setdefault(key.topic, []).append((key.partition, batch))
    head = _request_head(transactional_id, timeout_ms, len(topics))
    parts: list[bytes | memoryview] = []
    for topic, topic_batches in topics.items():
        head += _topic_head(topic, len(topic_batches))
        for partition, batch in topic_batches:
            parts += (head + _PARTITION.pack(partition, len(batch)), batch)
            head = b""
    return parts


@lru_cache(maxsize=_HEADS)
def _request_head(transactional_id: str | None, timeout_ms: int, topics: int) -> bytes:
    return Encoder().string(transactional_id).i16(_ALL_IN_SYNC).i32(timeout_ms).i32(topics).done()


@lru_cache(maxsize=_HEADS)
def _topic_head(topic: str, partitions: int) -> bytes:
    return Encoder().string(topic).i32(partitions).done()


def parse_produced(data: memoryview) -> Mapping[TopicPartition, ProduceAnswer]:
    """Decode the acknowledgements in `data`. Raises one of `UNREADABLE` on bytes that are no answer."""
    answers: dict[TopicPartition, ProduceAnswer] = {}
    (topics,), at = _COUNT.unpack_from(data), _COUNT.size
    for _ in range(topics):
        (length,) = _LENGTH.unpack_from(data, at)
        name, at = str(data[at + _LENGTH.size : at + _LENGTH.size + length], "utf-8"), at + _LENGTH.size + length
        (count,), at = _COUNT.unpack_from(data, at), at + _COUNT.size
        for _ in range(count):
            partition, code, base_offset, record_errors, message = _PLAIN_PARTITION.unpack_from(data, at)
            if record_errors or message != _NO_MESSAGE:
                return _produced_in_detail(Decoder(data))
            answers[TopicPartition(name, partition)] = ProduceAnswer(code, base_offset, 0, "")
            at += _PLAIN_PARTITION.size
    if at + _COUNT.size != len(data) or _COUNT.unpack_from(data, at)[0]:
        return _produced_in_detail(Decoder(data))
    return answers


def _produced_in_detail(answer: Decoder) -> Mapping[TopicPartition, ProduceAnswer]:
    answers = answer.topics(_partition)
    throttle_ms = answer.throttle_ms()
    answer.done()
    return {key: acknowledgement._replace(throttle_ms=throttle_ms) for key, acknowledgement in answers.items()}


def _partition(answer: Decoder, topic: str) -> tuple[TopicPartition, ProduceAnswer]:
    key = TopicPartition(topic, answer.i32())
    error_code, base_offset = answer.i16(), answer.i64()
    answer.i64()  # log append time
    answer.i64()  # log start
    record_errors = answer.array(_record_error)
    detail = "; ".join(text for text in [answer.string(), *record_errors] if text)
    return key, ProduceAnswer(error_code=error_code, base_offset=base_offset, throttle_ms=0, detail=detail)


def _record_error(answer: Decoder) -> str:
    index, message = answer.i32(), answer.string()
    return f"record {index}: {message}"
