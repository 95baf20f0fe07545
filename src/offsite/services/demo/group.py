"""A consumer group of the demo: half-way through a topic before the loss, and to go on from there after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Consumer, TopicPartition

from offsite.services.demo.data import ORDERS, QUIET
from offsite.services.demo.truth import Reading

GROUP = "demo-shipping"
LIMIT_S = 30.0


def commit_half_way(bootstrap: str, orders: Reading) -> None:
    """The group has read the first half of each partition of the orders."""
    positions = [
        TopicPartition(ORDERS.name, partition, records[len(records) // 2].offset)
        for partition, records in orders.items()
    ]
    with _member(bootstrap) as consumer:
        consumer.commit(offsets=positions, asynchronous=False)


def committed_offsets(bootstrap: str) -> Mapping[int, int]:
    """Partition of the orders → the offset at which the group goes on; negative where it has none."""
    asked = [TopicPartition(ORDERS.name, partition) for partition in range(ORDERS.partitions)]
    with _member(bootstrap) as consumer:
        return {each.partition: each.offset for each in consumer.committed(asked, timeout=LIMIT_S)}


@contextmanager
def _member(bootstrap: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False, **QUIET})
    try:
        yield consumer
    finally:
        consumer.close()
