"""What the coordinator of groups and transactions answers. A transaction that is ended has its markers at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from offsite.kafka.protocol.broker_errors import (
    INVALID_PRODUCER_EPOCH,
    NONE,
    PRODUCER_FENCED,
    TRANSACTIONAL_ID_NOT_FOUND,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from tests.fake_cluster.cluster import FakeCluster, FakeGroup, FakeTransaction
from tests.fake_cluster.messages import Answer
from tests.fake_cluster.topic_answers import NODE

_UNKNOWN_MEMBER, _SUBSCRIBED = 25, 86
_NON_EMPTY, _NO_GROUP = 68, 69
_INVALID_TRANSACTION_STATE = 48


def find_coordinator(cluster: FakeCluster, asked: Any) -> Answer:
    where = {"node_id": NODE, "host": cluster.address.host, "port": cluster.address.port, "error_message": None}
    return {"coordinators": [{"key": key, **where} for key in asked.coordinator_keys]}


def list_groups(cluster: FakeCluster, _asked: Any) -> Answer:
    return {
        "groups": [
            {"group_id": name, "protocol_type": "consumer", "group_state": each.state, "group_type": each.kind}
            for name, each in cluster.groups.items()
            if name not in cluster.unlisted
        ]
    }


def fetch_offsets(cluster: FakeCluster, asked: Any) -> Answer:
    return {"groups": [_fetched(cluster, each.group_id) for each in asked.groups]}


def _fetched(cluster: FakeCluster, name: str) -> Answer:
    topics: dict[str, list[Answer]] = defaultdict(list)
    for key, offset in sorted(cluster.groups.get(name, FakeGroup()).offsets.items()):
        topics[key.topic].append({"partition_index": key.partition, "committed_offset": offset})
    return {"group_id": name, "topics": [{"name": topic, "partitions": rows} for topic, rows in topics.items()]}


def commit_offsets(cluster: FakeCluster, asked: Any) -> Answer:
    group = cluster.groups.setdefault(asked.group_id, FakeGroup())
    code = NONE if group.state == "Empty" else _UNKNOWN_MEMBER
    offsets = {
        TopicPartition(topic=topic.name, partition=each.partition_index): each.committed_offset
        for topic in asked.topics
        for each in topic.partitions
    }
    failing = {key: code or cluster.failing.get((Api.OFFSET_COMMIT, key), NONE) for key in offsets}
    group.offsets |= {key: offset for key, offset in offsets.items() if not failing[key]}
    return {"topics": _codes(asked.topics, failing)}


def delete_offsets(cluster: FakeCluster, asked: Any) -> Answer:
    group = cluster.groups.get(asked.group_id)
    if group is None:
        return {"error_code": _NO_GROUP}
    keys = [TopicPartition(topic.name, each.partition_index) for topic in asked.topics for each in topic.partitions]
    if group.state != "Empty":
        return {"topics": _codes(asked.topics, dict.fromkeys(keys, _SUBSCRIBED))}
    codes = {key: NONE if key.topic in cluster.topics else UNKNOWN_TOPIC_OR_PARTITION for key in keys}
    group.offsets = {key: offset for key, offset in group.offsets.items() if codes.get(key, -1)}
    return {"topics": _codes(asked.topics, codes)}


def describe_positions(cluster: FakeCluster, asked: Any) -> Answer:
    return {"groups": [_positions(cluster, described.group_id) for described in asked.groups]}


def _positions(cluster: FakeCluster, name: str) -> Answer:
    topics: dict[str, list[Answer]] = defaultdict(list)
    for key, position in sorted(cluster.groups.get(name, FakeGroup()).offsets.items()):
        code = cluster.failing.get((Api.DESCRIBE_SHARE_GROUP_OFFSETS, key), NONE)
        topics[key.topic].append(
            {"partition_index": key.partition, "start_offset": -1 if code else position, "error_code": code}
        )
    return {
        "group_id": name,
        "topics": [{"topic_name": topic, "partitions": rows} for topic, rows in topics.items()],
    }


def alter_positions(cluster: FakeCluster, asked: Any) -> Answer:
    if not cluster.sets_positions:
        return {"error_code": NONE}
    group = cluster.groups.setdefault(asked.group_id, FakeGroup(kind="share"))
    if group.state != "Empty":
        return {"error_code": _NON_EMPTY}
    for topic in asked.topics:
        for row in topic.partitions:
            group.offsets[TopicPartition(topic=topic.topic_name, partition=row.partition_index)] = row.start_offset
    return {"error_code": NONE}


def delete_positions(cluster: FakeCluster, asked: Any) -> Answer:
    """All on a topic: Kafka has no request for a part of them."""
    group = cluster.groups.get(asked.group_id)
    if group is None or group.state != "Empty":
        return {"error_code": _NO_GROUP if group is None else _NON_EMPTY}
    names = {topic.topic_name for topic in asked.topics}
    group.offsets = {key: position for key, position in group.offsets.items() if key.topic not in names}
    return {"error_code": NONE}


def _codes(topics: Iterable[Any], codes: Mapping[TopicPartition, int]) -> list[Answer]:
    return [
        {
            "name": topic.name,
            "partitions": [
                {
                    "partition_index": each.partition_index,
                    "error_code": codes[TopicPartition(topic.name, each.partition_index)],
                }
                for each in topic.partitions
            ],
        }
        for topic in topics
    ]


def init_producer_id(cluster: FakeCluster, asked: Any) -> Answer:
    """With a transactional id: what it left open is aborted, and the epoch before is shut out (KIP-360)."""
    name, claimed = asked.transactional_id, (asked.producer_id, asked.producer_epoch)
    if name is None:
        return {"producer_id": cluster.next_producer_id(), "producer_epoch": 0}
    known = cluster.transactions.get(name)
    if known is None:
        known = cluster.transactions[name] = FakeTransaction(cluster.next_producer_id(), -1)
    elif claimed[0] >= 0 and claimed not in {(known.producer_id, known.epoch), (known.producer_id, known.epoch - 1)}:
        return {"error_code": PRODUCER_FENCED}
    elif claimed == (known.producer_id, known.epoch - 1):
        return {"producer_id": known.producer_id, "producer_epoch": known.epoch}
    if known.state == "Ongoing":
        cluster.end(known, committed=False)
    known.epoch, known.state = known.epoch + 1, "Empty"
    return {"producer_id": known.producer_id, "producer_epoch": known.epoch}


def add_partitions(cluster: FakeCluster, asked: Any) -> Answer:
    known = cluster.transactions[asked.v3_and_below_transactional_id]
    code = _checked(known, asked.v3_and_below_producer_id, asked.v3_and_below_producer_epoch)
    told = [
        TopicPartition(topic=topic.name, partition=number)
        for topic in asked.v3_and_below_topics
        for number in topic.partitions
    ]
    if not code:
        known.state = "Ongoing"
        known.partitions |= set(told)
    return {
        "results_by_topic_v3_and_below": [
            {
                "name": each.topic,
                "results_by_partition": [{"partition_index": each.partition, "partition_error_code": code}],
            }
            for each in told
        ]
    }


def end_transaction(cluster: FakeCluster, asked: Any) -> Answer:
    known = cluster.transactions[asked.transactional_id]
    outcome = "CompleteCommit" if asked.committed else "CompleteAbort"
    code = _checked(known, asked.producer_id, asked.producer_epoch)
    if code or known.state == outcome:  # told again
        return {"error_code": code}
    if known.state != "Ongoing":
        return {"error_code": _INVALID_TRANSACTION_STATE}
    cluster.end(known, committed=asked.committed)
    return {}


def describe_transactions(cluster: FakeCluster, asked: Any) -> Answer:
    return {"transaction_states": [_described(cluster, name) for name in asked.transactional_ids]}


def _described(cluster: FakeCluster, name: str) -> Answer:
    known = cluster.transactions.get(name)
    if known is None:
        return {"transactional_id": name, "error_code": TRANSACTIONAL_ID_NOT_FOUND}
    topics: dict[str, list[int]] = defaultdict(list)
    for each in sorted(known.partitions):
        topics[each.topic].append(each.partition)
    return {
        "transactional_id": name,
        "transaction_state": known.state,
        "producer_id": known.producer_id,
        "producer_epoch": known.epoch,
        "topics": [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()],
    }


def _checked(known: FakeTransaction, producer_id: int, epoch: int) -> int:
    return NONE if (producer_id, epoch) == (known.producer_id, known.epoch) else INVALID_PRODUCER_EPOCH


def list_transactions(_cluster: FakeCluster, _asked: Any) -> Answer:
    """None: this cluster has no coordinator that remembers transactional ids."""
    return {"throttle_time_ms": 0, "error_code": 0, "unknown_state_filters": [], "transaction_states": []}
