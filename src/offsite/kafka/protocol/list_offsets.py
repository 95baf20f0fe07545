"""The ListOffsets API: where a partition's log begins and ends, and where a time falls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder, UnreadableError
from offsite.log.range import TopicPartition

VERSION = 5
LATEST = -1
EARLIEST = -2
READ_UNCOMMITTED = 0  # LATEST is the high watermark
READ_COMMITTED = 1  # LATEST is the last stable offset
_CONSUMER = -1
_NO_EPOCH = _NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """`offset` is -1 when no record is at or after the time asked for; `error_code` 0 when the answer counts."""

    offset: int
    timestamp_ms: int
    leader_epoch: int
    error_code: int


def list_offsets_request(
    partitions: Iterable[TopicPartition],
    timestamp_ms: int,
    *,
    isolation: int = READ_UNCOMMITTED,
    epochs: Mapping[TopicPartition, int] | None = None,
) -> Request[Mapping[TopicPartition, ListedOffset]]:
    """All `partitions` must be led by the broker asked, in the leader epochs given, if any: one that leads in another
    epoch answers with an error instead. `timestamp_ms`: a time, `LATEST` or `EARLIEST`; a partition without a beginning
    or an end was not answered about."""
    known = epochs or {}

    def put_partition(out: Encoder, each: TopicPartition) -> None:
        out.i32(each.partition).i32(known.get(each, _NO_EPOCH)).i64(timestamp_ms)

    def put_topic(out: Encoder, topic: tuple[str, list[TopicPartition]]) -> None:
        out.string(topic[0]).array(topic[1], put_partition)

    topics = [(name, list(group)) for name, group in groupby(sorted(partitions), key=lambda each: each.topic)]
    body = Encoder().i32(_CONSUMER).i8(isolation).array(topics, put_topic).done()

    def parse(answer: Decoder) -> Mapping[TopicPartition, ListedOffset]:
        answer.i32()  # throttle time
        told = {key: listed for topic in answer.array(_topic) for key, listed in topic}
        if timestamp_ms >= 0:
            return told
        return {key: listed for key, listed in told.items() if listed.error_code or listed.offset >= 0}

    return Request(api=Api.LIST_OFFSETS, version=VERSION, body=body, parse=parse)


def _topic(answer: Decoder) -> list[tuple[TopicPartition, ListedOffset]]:
    name = answer.string()
    return answer.array(lambda each: _partition(each, name))


def _partition(answer: Decoder, topic: str) -> tuple[TopicPartition, ListedOffset]:
    key = TopicPartition(topic=topic, partition=answer.i32())
    error_code, timestamp_ms, offset, leader_epoch = answer.i16(), answer.i64(), answer.i64(), answer.i32()
    if not error_code and offset < _NO_OFFSET:
        raise UnreadableError(f"offset {offset} of {key}")
    return key, ListedOffset(offset=offset, timestamp_ms=timestamp_ms, leader_epoch=leader_epoch, error_code=error_code)
