"""Requests about share groups in bytes (KIP-932): DescribeShareGroupOffsets, AlterShareGroupOffsets,
DeleteShareGroupOffsets.

The position of a share group in a partition is the start of its share-partition: every record before is done. Records
from the position on are waiting, in flight or done, and no request tells which of them are done. Brokers store the
position with an acknowledgement, as it was before. Positions have no metadata and no epochs of use to another cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from offsite.kafka.protocol.broker_errors import GROUP_ID_NOT_FOUND, NONE, UNKNOWN_TOPIC_OR_PARTITION
from offsite.kafka.protocol.groups import GroupAnswer, changed
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.log.group_offsets import NO_EPOCH, NO_OFFSET, GroupOffsets, TopicOffsets, TopicOffsetsBuilder
from offsite.log.range import TopicPartition

SHARE_VERSION = 0
"""Of all three requests."""
SETTING_VERSION = 1
"""The version of DescribeShareGroupOffsets that tells brokers that set positions: it came with Kafka 4.2 (KIP-1226).
Brokers of 4.1 answer AlterShareGroupOffsets without an error, and set nothing."""
_NOTHING_TO_DELETE = {NONE, UNKNOWN_TOPIC_OR_PARTITION, GROUP_ID_NOT_FOUND}


def describe_positions_request(groups: Sequence[str]) -> Request[Mapping[str, GroupAnswer]]:
    """Request the positions of share groups in all their partitions. Offset -1: the group has the partition, and has
    not stored a position in it, or its coordinator could not read it."""

    def put_group(out: Encoder, group: str) -> None:
        out.string(group).array(None, Encoder.string).end()

    def read(answer: Decoder) -> Mapping[str, GroupAnswer]:
        return dict(answer.array(_described))

    body = Encoder(flexible=True).array(groups, put_group).end().done()
    return Request(api=Api.DESCRIBE_SHARE_GROUP_OFFSETS, version=SHARE_VERSION, body=body, read=read, flexible=True)


def alter_positions_request(group: GroupOffsets) -> Request[Mapping[str, GroupAnswer]]:
    """Set positions. The coordinator forgets which records behind them are done, and refuses a group with members."""

    def put_position(out: Encoder, row: tuple[int, int, int, str]) -> None:
        out.i32(row[0]).i64(row[1]).end()

    def put_topic(out: Encoder, topic: TopicOffsets) -> None:
        out.string(topic.topic).array(topic, put_position).end()

    def read(answer: Decoder) -> Mapping[str, GroupAnswer]:
        code = answer.i16()
        answer.nullable_string()
        codes = dict(row for topic in answer.array(_altered) for row in topic)
        return {group.group: GroupAnswer(error_code=code) if code else changed(codes)}

    body = Encoder(flexible=True).string(group.group).array(group.topics, put_topic).end().done()
    return Request(api=Api.ALTER_SHARE_GROUP_OFFSETS, version=SHARE_VERSION, body=body, read=read, flexible=True)


def delete_positions_request(group: GroupOffsets) -> Request[Mapping[str, GroupAnswer]]:
    """Delete all positions of the group on the topics of `group`: no request deletes those of single partitions. A
    missing group, and a topic without positions, are no errors: after a crash the request is sent again."""

    def put_topic(out: Encoder, topic: TopicOffsets) -> None:
        out.string(topic.topic).end()

    def read(answer: Decoder) -> Mapping[str, GroupAnswer]:
        code = answer.i16()
        answer.nullable_string()
        codes = [code, *answer.array(_deleted)]
        errors = (code for code in codes if code not in _NOTHING_TO_DELETE)
        return {group.group: GroupAnswer(error_code=next(errors, 0))}

    body = Encoder(flexible=True).string(group.group).array(group.topics, put_topic).end().done()
    return Request(api=Api.DELETE_SHARE_GROUP_OFFSETS, version=SHARE_VERSION, body=body, read=read, flexible=True)


def _described(answer: Decoder) -> tuple[str, GroupAnswer]:
    group = answer.string()
    topics = answer.array(_positions)
    code = answer.i16()
    answer.nullable_string()
    answer.end()
    offsets = sorted((topic for topic, _ in topics if len(topic)), key=lambda topic: topic.topic)
    unread = {partition: error for _, errors in topics for partition, error in errors.items()}
    return group, GroupAnswer(error_code=code, offsets=tuple(offsets), unread=unread)


def _positions(answer: Decoder) -> tuple[TopicOffsets, Mapping[TopicPartition, int]]:
    """The positions on a topic, and the error codes of its partitions. The positions have the id of the topic: a topic
    that is made anew meanwhile has other records."""
    builder, errors = TopicOffsetsBuilder(answer.string()), dict[TopicPartition, int]()
    topic_id = answer.uuid()
    for _ in range(answer.count()):
        partition, position = answer.i32(), answer.i64()
        answer.i32()  # leader epoch
        code = answer.i16()
        answer.nullable_string()
        answer.end()
        if code:
            errors[TopicPartition(topic=builder.topic, partition=partition)] = code
        builder.add(partition, NO_OFFSET if code else position, NO_EPOCH, "")
    answer.end()
    return replace(builder.build(), topic_id=str(topic_id) if topic_id.int else ""), errors


def _altered(answer: Decoder) -> Sequence[tuple[TopicPartition, int]]:
    topic = answer.string()
    answer.uuid()
    codes = answer.array(lambda partition: _altered_partition(partition, topic))
    answer.end()
    return codes


def _altered_partition(answer: Decoder, topic: str) -> tuple[TopicPartition, int]:
    key = TopicPartition(topic=topic, partition=answer.i32())
    code = answer.i16()
    answer.nullable_string()
    answer.end()
    return key, code


def _deleted(answer: Decoder) -> int:
    answer.string()
    answer.uuid()
    code = answer.i16()
    answer.nullable_string()
    answer.end()
    return code
