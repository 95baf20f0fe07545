"""Moving a partition's log start forward (the DeleteRecords API, KIP-107)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.log.range import TopicPartition

VERSION = 1


def delete_records_request(
    before: Mapping[TopicPartition, int], *, timeout_ms: int
) -> Request[Mapping[TopicPartition, int]]:
    """Delete what lies below the given offsets; the answer tells the new log starts. All led by the broker asked."""

    def put_partition(out: Encoder, item: tuple[TopicPartition, int]) -> None:
        out.i32(item[0].partition).i64(item[1])

    def put_topic(out: Encoder, topic: tuple[str, list[tuple[TopicPartition, int]]]) -> None:
        out.string(topic[0]).array(topic[1], put_partition)

    by_topic = groupby(sorted(before.items()), key=lambda item: item[0].topic)
    body = Encoder().array([(name, list(group)) for name, group in by_topic], put_topic).i32(timeout_ms).done()
    return Request(api=Api.DELETE_RECORDS, version=VERSION, body=body, parse=_parse)


def _parse(answer: Decoder) -> Mapping[TopicPartition, int]:
    answer.i32()  # throttle time
    return {key: offset for topic in answer.array(_topic) for key, offset in topic}


def _topic(answer: Decoder) -> list[tuple[TopicPartition, int]]:
    name = answer.string()
    return answer.array(lambda each: _partition(each, name))


def _partition(answer: Decoder, topic: str) -> tuple[TopicPartition, int]:
    key, log_start, code = TopicPartition(topic=topic, partition=answer.i32()), answer.i64(), answer.i16()
    if code:
        raise broker_error(code, f"deleting records of {key}")
    return key, log_start
