"""The Produce API for one batch of one partition: the bytes in front of the batch, and the broker's acknowledgement."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from offsite.kafka.wire import Decoder, Encoder, bounded_throttle_ms
from offsite.log.range import TopicPartition

VERSION = 8  # Kafka 2.4; the last one without the compact encoding, the first one that says what is wrong with a record
_ALL_IN_SYNC = -1
_COUNT = struct.Struct(">i")
# Error, base offset, append time, log start, no record errors, no message, throttle time.
_PLAIN_RESULT = struct.Struct(">hq16x4x2xi")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceAnswer:
    """`base_offset` is what the broker gave the batch, or -1. `detail`: what it said of a refused record."""

    error_code: int
    base_offset: int
    throttle_ms: int
    detail: str


class ProduceFormat:
    """Everything in front of the batch but its length stays the same, and is made once; so does where an answer that
    reports no trouble has its fields."""

    def __init__(self, topic_partition: TopicPartition, *, transactional_id: str | None, timeout_ms: int) -> None:
        out = Encoder().string(transactional_id).i16(_ALL_IN_SYNC).i32(timeout_ms)
        out.i32(1).string(topic_partition.topic).i32(1).i32(topic_partition.partition)
        self._head = out.done()
        self._result = _COUNT.size + 2 + len(topic_partition.topic.encode()) + _COUNT.size + _COUNT.size

    def head(self, batch_bytes: int) -> bytes:
        """What goes before a batch of that size."""
        return self._head + _COUNT.pack(batch_bytes)

    def decode(self, data: memoryview) -> ProduceAnswer:
        """Raises `struct.error` or `IndexError` on an answer that is not one."""
        if len(data) == self._result + _PLAIN_RESULT.size:
            error_code, base_offset, throttle_ms = _PLAIN_RESULT.unpack_from(data, self._result)
            return ProduceAnswer(
                error_code=error_code, base_offset=base_offset, throttle_ms=bounded_throttle_ms(throttle_ms), detail=""
            )
        return _decode_detailed(data)


def _decode_detailed(data: memoryview) -> ProduceAnswer:
    answer = Decoder(data)
    answer.count()
    answer.string()
    answer.count()
    answer.i32()  # partition
    error_code, base_offset = answer.i16(), answer.i64()
    answer.i64()  # log append time
    answer.i64()  # log start
    record_errors = answer.array(_record_error)
    message = answer.string()
    throttle_ms = answer.throttle_ms()
    detail = "; ".join(text for text in [message, *record_errors] if text)
    return ProduceAnswer(error_code=error_code, base_offset=base_offset, throttle_ms=throttle_ms, detail=detail)


def _record_error(answer: Decoder) -> str:
    index, message = answer.i32(), answer.string()
    return f"record {index}: {message}"
