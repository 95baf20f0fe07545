"""Exactly-once producers at work: each transaction writes one record to every partition, and a group's offset."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Position

from offsite.log.markers import parse_control_marker
from offsite.log.range import PartitionId, TopicPartition
from tests.integration.kafka.cluster import Batch, Cluster

ERRORS_ONLY = 3
ABORTED = 5
"""Every so many-th transaction."""


def producer(cluster: Cluster, transactional_id: str) -> Producer:
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id}
    made = Producer({**settings, "linger.ms": 0, "log_level": ERRORS_ONLY})
    made.init_transactions()
    return made


def write(made: Producer, topic: str, partitions: int, group: Consumer, offset: int) -> None:
    """Begin a transaction, write to all partitions, and commit `offset` of partition 0 for the group."""
    made.begin_transaction()
    for partition in range(partitions):
        made.produce(topic, b"%d" % offset, partition=partition)
    made.flush()  # an abort that overtakes records under way leaves a hole in their sequence numbers
    made.send_offsets_to_transaction([Position(topic, 0, offset)], group.consumer_group_metadata(), 30)


def member(cluster: Cluster, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})


@contextmanager
def at_work(cluster: Cluster, topic: str, *, partitions: int, workers: int) -> Iterator[None]:
    """Transactions one after the other until the block ends; those under way end first."""
    stop = threading.Event()
    begun = [threading.Event() for _ in range(workers)]
    failures: list[KafkaException] = []

    def work(number: int) -> None:
        try:
            made, group, count = producer(cluster, f"{topic}-{number}"), member(cluster, f"{topic}-{number}"), 0
            while not stop.is_set():
                count += 1
                write(made, topic, partitions, group, count)
                (made.commit_transaction if count % ABORTED else made.abort_transaction)()
                begun[number].set()
            group.close()
        except KafkaException as error:
            failures.append(error)
            begun[number].set()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    try:
        for each in begun:
            assert each.wait(60)
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures


def keys_of(cluster: Cluster, topic: str) -> list[PartitionId]:
    there = cluster.admin.topics([topic])[topic]
    topic_id = str(there.topic_id) if there.topic_id else ""
    return [PartitionId(topic, topic_id, each.partition) for each in there.partitions]


def markers_of(cluster: Cluster, keys: Sequence[PartitionId]) -> Mapping[PartitionId, Mapping[int, Sequence[int]]]:
    """Of each partition the offsets of the markers by producer id, in a log read again from its beginning."""
    found: dict[PartitionId, dict[int, list[int]]] = {}
    for key in keys:
        by_producer = found.setdefault(key, {})
        for batch in whole(cluster, key):
            if batch.header.is_control and parse_control_marker(memoryview(batch.data), batch.header):
                by_producer.setdefault(batch.header.producer_id, []).append(batch.header.base_offset)
    return found


def whole(cluster: Cluster, key: PartitionId) -> list[Batch]:
    of = TopicPartition(topic=key.topic, partition=key.partition)
    return cluster.read(cluster.whole(of.topic, of.partition))
