"""The OffsetForLeaderEpoch API (KIP-101): where that part of a log ends which leaders up to an epoch wrote."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from offsite.kafka.protocol.list_offsets import ListedOffset
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder, UnreadableError
from offsite.log.range import TopicPartition

VERSION = 3
_CONSUMER = -1
_OF_ANY_LEADER = -1
_NO_TIME = _NOT_KNOWN = -1


def epoch_ends_request(
    epochs: Mapping[TopicPartition, int], *, led_in: Mapping[TopicPartition, int] | None = None
) -> Request[Mapping[TopicPartition, ListedOffset]]:
    """Partition → leader epoch. All must be led by the broker asked, in the epochs `led_in`, if given. Offset -1: it
    knows nothing of the epoch."""
    known = led_in or {}

    def put_partition(out: Encoder, item: tuple[TopicPartition, int]) -> None:
        out.i32(item[0].partition).i32(known.get(item[0], _OF_ANY_LEADER)).i32(item[1])

    def put_topic(out: Encoder, topic: tuple[str, list[tuple[TopicPartition, int]]]) -> None:
        out.string(topic[0]).array(topic[1], put_partition)

    by_topic = groupby(sorted(epochs.items()), key=lambda item: item[0].topic)
    body = Encoder().i32(_CONSUMER).array([(name, list(group)) for name, group in by_topic], put_topic).done()
    return Request(api=Api.OFFSET_FOR_LEADER_EPOCH, version=VERSION, body=body, parse=_parse)


def _parse(answer: Decoder) -> Mapping[TopicPartition, ListedOffset]:
    answer.i32()  # throttle time
    return {key: offset for topic in answer.array(_topic) for key, offset in topic}


def _topic(answer: Decoder) -> list[tuple[TopicPartition, ListedOffset]]:
    name = answer.string()
    return answer.array(lambda each: _partition(each, name))


def _partition(answer: Decoder, topic: str) -> tuple[TopicPartition, ListedOffset]:
    error_code, key = answer.i16(), TopicPartition(topic=topic, partition=answer.i32())
    leader_epoch, offset = answer.i32(), answer.i64()
    if not error_code and offset < _NOT_KNOWN:
        raise UnreadableError(f"offset {offset} of {key}")
    return key, ListedOffset(offset=offset, timestamp_ms=_NO_TIME, leader_epoch=leader_epoch, error_code=error_code)
