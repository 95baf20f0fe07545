"""The Fetch API for one partition: the request in bytes, and the answer's head. The answer's records stay in place.

Full fetches without a session (KIP-227: session 0, epoch -1). With a topic id, version 13 names the topic by id, so the
broker itself notices a recreated topic of the same name (KIP-516). Without an id, version 11 names the topic by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.log.range import TopicPartition

NAME_VERSION = 11
ID_VERSION = 13
_CONSUMER = -1
_READ_UNCOMMITTED = 0
_NO_SESSION = 0
_FULL_FETCH = -1
NO_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchQuery:
    """One fetch. With `min_bytes` 0 the broker answers at once, even with nothing. `leader_epoch`: the broker refuses
    the fetch unless the broker leads, or follows, in the epoch (KIP-320); -1 where unknown."""

    offset: int
    max_bytes: int
    max_wait_ms: int
    min_bytes: int
    leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """A broker's answer about one partition.

    `preferred_replica` is -1, or the broker to ask instead. `records` may end in a torn batch. `is_included`: the
    answer holds the partition. A broker that enforces a quota leaves the partition out (KIP-219), and the answer then
    proves nothing about the partition.
    """

    is_included: bool
    throttle_ms: int
    error_code: int
    high_watermark: int
    log_start: int
    preferred_replica: int
    records: memoryview


class FetchFormat:
    """Encodes and decodes for one partition; constant parts are made once."""

    def __init__(self, topic_partition: TopicPartition, *, topic_id: UUID | None, rack_id: str) -> None:
        self.version = NAME_VERSION if topic_id is None else ID_VERSION
        self.flexible = topic_id is not None
        self._topic_partition = topic_partition
        self._topic_id = topic_id
        self._rack_id = rack_id

    def encode(self, query: FetchQuery) -> bytes:
        out = Encoder(flexible=self.flexible)
        out.i32(_CONSUMER).i32(query.max_wait_ms).i32(query.min_bytes).i32(query.max_bytes).i8(_READ_UNCOMMITTED)
        out.i32(_NO_SESSION).i32(_FULL_FETCH)
        out.array([query], self._put_topic)
        out.array([], self._put_topic)  # forgotten topics
        return out.string(self._rack_id).end().done()

    def decode(self, data: memoryview) -> FetchAnswer:
        """Decode the answer in `data`. Raises `struct.error` or `IndexError` on bytes that are no answer."""
        answer = Decoder(data, flexible=self.flexible)
        answer.end()
        throttle_ms, error_code = answer.throttle_ms(), answer.i16()
        answer.i32()  # session id
        if error_code or not answer.count():
            return _nothing(throttle_ms, error_code)
        self._check_topic(answer)
        if not answer.count():
            return _nothing(throttle_ms, error_code)
        if (partition := answer.i32()) != self._topic_partition.partition:
            raise IndexError(f"an answer about partition {partition}")
        return _partition(answer, throttle_ms)

    def _check_topic(self, answer: Decoder) -> None:
        if self._topic_id is None:
            actual, expected = answer.string(), self._topic_partition.topic
        else:
            actual, expected = str(answer.uuid()), str(self._topic_id)
        if actual != expected:
            raise IndexError(f"an answer about topic {actual}")

    def _put_topic(self, out: Encoder, query: FetchQuery) -> None:
        if self._topic_id is None:
            out.string(self._topic_partition.topic)
        else:
            out.uuid(self._topic_id)
        out.array([query], self._put_partition).end()

    def _put_partition(self, out: Encoder, query: FetchQuery) -> None:
        out.i32(self._topic_partition.partition).i32(query.leader_epoch).i64(query.offset)
        if self.flexible:
            out.i32(NO_EPOCH)  # last fetched epoch, for followers
        out.i64(-1).i32(query.max_bytes).end()  # -1: log start, for followers


def _partition(answer: Decoder, throttle_ms: int) -> FetchAnswer:
    error_code, high_watermark = answer.i16(), answer.i64()
    answer.i64()  # last stable offset: aborted data and markers are copied as they are
    log_start = answer.i64()
    answer.array(_aborted)
    preferred_replica = answer.i32()
    length = answer.blob_length()
    records = answer.data[answer.position : answer.position + length]
    answer.position += length
    for _ in range(3):  # the partition, the topic, the answer
        answer.end()
    answer.done()
    return FetchAnswer(
        is_included=True,
        throttle_ms=throttle_ms,
        error_code=error_code,
        high_watermark=high_watermark,
        log_start=log_start,
        preferred_replica=preferred_replica,
        records=records,
    )


def _aborted(answer: Decoder) -> None:
    answer.i64()
    answer.i64()
    answer.end()


def _nothing(throttle_ms: int, error_code: int) -> FetchAnswer:
    return FetchAnswer(
        is_included=False,
        throttle_ms=throttle_ms,
        error_code=error_code,
        high_watermark=-1,
        log_start=-1,
        preferred_replica=-1,
        records=memoryview(b""),
    )
