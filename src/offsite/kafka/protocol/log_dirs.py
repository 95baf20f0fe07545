"""Bytes of a partition on a broker's disks (the DescribeLogDirs API)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from offsite.kafka.protocol.broker_errors import error_name
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.log.range import TopicPartition
from offsite.model.journal import decided

VERSION = 1


def log_dirs_request(partitions: Iterable[TopicPartition]) -> Request[Mapping[TopicPartition, int]]:
    """Request the sizes of replicas on the asked broker. A replica is absent from the answer when the broker does not
    hold the replica, may not tell the size, or has the replica on a failed disk."""

    def put_topic(out: Encoder, topic: tuple[str, list[int]]) -> None:
        out.string(topic[0]).array(topic[1], Encoder.i32)

    by_topic = groupby(sorted(partitions), key=lambda topic_partition: topic_partition.topic)
    topics = [(name, [topic_partition.partition for topic_partition in group]) for name, group in by_topic]
    body = Encoder().array(topics, put_topic).done()
    return Request(api=Api.DESCRIBE_LOG_DIRS, version=VERSION, body=body, parse=_parse)


def _parse(answer: Decoder) -> Mapping[TopicPartition, int]:
    answer.i32()  # throttle time
    sizes = [size for directory in answer.array(_directory) for size in directory]
    return dict(sizes)


def _directory(answer: Decoder) -> list[tuple[TopicPartition, int]]:
    code, name = answer.i16(), answer.string()
    topics = answer.array(_topic)
    if code:
        decided("estimate", why=f"the log directory {name} has failed: {error_name(code)}")
        return []
    return [size for topic in topics for size in topic]


def _topic(answer: Decoder) -> list[tuple[TopicPartition, int]]:
    name = answer.string()
    sizes = answer.array(_partition)
    return [(TopicPartition(topic=name, partition=partition), size) for partition, size, future in sizes if not future]


def _partition(answer: Decoder) -> tuple[int, int, bool]:
    partition, size_bytes = answer.i32(), answer.i64()
    answer.i64()  # lag
    return partition, size_bytes, answer.boolean()
