"""What a leader answers about its partitions: Fetch, Produce, and where logs begin and end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from offsite.kafka.protocol.broker_errors import NONE
from offsite.kafka.protocol.logs import EARLIEST, LATEST, READ_COMMITTED
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from tests.fake_cluster.cluster import THE_CLUSTER, FakeCluster
from tests.fake_cluster.messages import Answer
from tests.fake_cluster.partition_log import PartitionLog, RefusedError

_FENCED_LEADER_EPOCH, _UNKNOWN_LEADER_EPOCH = 74, 75
_CLUSTER_AUTHORIZATION_FAILED = 31
_INVALID_REQUEST = 42
_NO_EPOCH = -1
CLUSTER_ACTION = 9
"""Code of AclOperation."""


def fetch(cluster: FakeCluster, asked: Any) -> Answer:
    """At once, whatever `max_wait_ms` says."""
    return {"responses": [_fetched_topic(cluster, topic) for topic in asked.topics]}


def _fetched_topic(cluster: FakeCluster, topic: Any) -> Answer:
    told = {"topic": topic.topic} if topic.topic else {"topic_id": topic.topic_id}

    def read(each: Any) -> Answer:
        name = topic.topic or cluster.name_of(topic.topic_id)
        log = _led(cluster, Api.FETCH, name, each.partition, each.current_leader_epoch)
        return {
            "high_watermark": log.end,
            "last_stable_offset": log.stable_end,
            "log_start_offset": log.start,
            "records": log.read(each.fetch_offset, each.partition_max_bytes),
        }

    return told | {"partitions": _rows(topic.partitions, read, index="partition")}


def produce(cluster: FakeCluster, asked: Any) -> Answer:
    def take(topic: str) -> Callable[[Any], Answer]:
        def taken(each: Any) -> Answer:
            log = cluster.log(TopicPartition(topic=topic, partition=each.index), api=Api.PRODUCE)
            return {"base_offset": log.produce(bytes(each.records)), "log_start_offset": log.start}

        return taken

    return {
        "responses": [
            {"name": each.name, "partition_responses": _rows(each.partition_data, take(each.name), index="index")}
            for each in asked.topic_data
        ]
    }


def list_offsets(cluster: FakeCluster, asked: Any) -> Answer:
    def listed(topic: str, each: Any) -> Answer:
        log = _led(cluster, Api.LIST_OFFSETS, topic, each.partition_index, each.current_leader_epoch)
        if each.timestamp == EARLIEST:
            return {"offset": log.start, "leader_epoch": log.epoch}
        if each.timestamp == LATEST:
            end = log.stable_end if asked.isolation_level == READ_COMMITTED else log.end
            return {"offset": end, "leader_epoch": log.epoch}
        offset, time_ms = log.first_at(each.timestamp)
        return {"offset": offset, "timestamp": time_ms, "leader_epoch": log.epoch}

    return {"topics": _by_topic(asked.topics, listed)}


def epoch_ends(cluster: FakeCluster, asked: Any) -> Answer:
    def found(topic: str, each: Any) -> Answer:
        log = _led(cluster, Api.OFFSET_FOR_LEADER_EPOCH, topic, each.partition, each.current_leader_epoch)
        epoch, end = log.epoch_end(each.leader_epoch)
        return {"end_offset": end, "leader_epoch": epoch}

    return {"topics": _by_topic(asked.topics, found, name="topic", index="partition", answered="partition")}


def delete_records(cluster: FakeCluster, asked: Any) -> Answer:
    def deleted(topic: str, each: Any) -> Answer:
        log = cluster.log(TopicPartition(topic=topic, partition=each.partition_index))
        log.delete_before(each.offset)
        return {"low_watermark": log.start}

    return {"topics": _by_topic(asked.topics, deleted)}


def describe_log_dirs(cluster: FakeCluster, asked: Any) -> Answer:
    topics = [
        {
            "name": each.topic,
            "partitions": [
                {
                    "partition_index": number,
                    "partition_size": cluster.log(TopicPartition(topic=each.topic, partition=number)).size_bytes,
                }
                for number in each.partitions
            ],
        }
        for each in asked.topics
    ]
    return {"results": [{"log_dir": "/logs", "topics": topics}]}


def describe_producers(cluster: FakeCluster, asked: Any) -> Answer:
    def described(topic: str, number: int) -> Answer:
        log = cluster.log(TopicPartition(topic=topic, partition=number))
        return {"partition_index": number, "active_producers": _producers(log)}

    return {
        "topics": [
            {"name": each.name, "partitions": [described(each.name, number) for number in each.partition_indexes]}
            for each in asked.topics
        ]
    }


def write_markers(cluster: FakeCluster, asked: Any) -> Answer:
    """Of whoever may do what brokers do among themselves."""
    is_forbidden = CLUSTER_ACTION in cluster.forbidden.get(THE_CLUSTER, set())

    def written(marker: Any, topic: str, number: int) -> Answer:
        code = _CLUSTER_AUTHORIZATION_FAILED if is_forbidden else NONE
        if marker.transaction_result and cluster.takes_only_aborts:
            code = code or _INVALID_REQUEST
        try:
            if not code:
                log = cluster.log(TopicPartition(topic=topic, partition=number), api=Api.WRITE_TXN_MARKERS)
                log.take_marker(marker.producer_id, marker.producer_epoch, committed=marker.transaction_result)
        except RefusedError as error:
            code = error.code
        return {"partition_index": number, "error_code": code}

    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {"name": each.name, "partitions": [written(marker, each.name, n) for n in each.partition_indexes]}
                    for each in marker.topics
                ],
            }
            for marker in asked.markers
        ]
    }


def _producers(log: PartitionLog) -> list[Answer]:
    return [
        {
            "producer_id": producer_id,
            "producer_epoch": each.epoch,
            "last_sequence": each.last_sequence,
            "current_txn_start_offset": each.first_offset,
        }
        for producer_id, each in log.producers.items()
    ]


def _led(cluster: FakeCluster, api: Api, topic: str, partition: int, epoch: int) -> PartitionLog:
    log = cluster.log(TopicPartition(topic=topic, partition=partition), api=api)
    if epoch not in {_NO_EPOCH, log.epoch}:
        raise RefusedError(_FENCED_LEADER_EPOCH if epoch < log.epoch else _UNKNOWN_LEADER_EPOCH)
    return log


def _by_topic(
    topics: Iterable[Any],
    answer: Callable[[str, Any], Answer],
    *,
    name: str = "name",
    index: str = "partition_index",
    answered: str = "partition_index",
) -> list[Answer]:
    def of(topic: str) -> Callable[[Any], Answer]:
        return lambda each: answer(topic, each)

    return [
        {
            name: (topic := getattr(each, name)),
            "partitions": _rows(each.partitions, of(topic), index=index, to=answered),
        }
        for each in topics
    ]


def _rows(asked: Iterable[Any], answer: Callable[[Any], Answer], *, index: str, to: str = "") -> list[Answer]:
    """One row for each partition asked about; what is refused says why in its row."""
    rows: list[Answer] = []
    for each in asked:
        where = {to or _ANSWERED.get(index, index): getattr(each, index)}
        try:
            rows.append(where | answer(each))
        except RefusedError as refused:
            rows.append(where | {"error_code": refused.code})
    return rows


_ANSWERED = {"partition": "partition_index"}
