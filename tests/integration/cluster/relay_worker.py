"""One process of a relay: it writes orders, or reads a topic and writes a record for each that it reads.

`python relay_worker.py '{"client": …, "form": …, …}'` (see `WorkerOrder`); it ends when its input does. With form "" it
is a plain client, which stamps nothing and says nothing in its commits.
"""

from __future__ import annotations

import json
import select
import sys
import time
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer

from offsite_participant import confluent, kafka_python
from offsite_participant.errors import ControlUnavailable, LeaseLost, NotCommitted, NotDelivered
from offsite_participant.number import Form
from offsite_participant.participant import Participant, Settings

PARTITIONS = 3
PAUSE_S = 0.01
ORDERS_EVERY_S = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOrder:
    """`source` empty: it writes orders of its own."""

    client: str
    form: str
    name: str
    bootstrap: str
    source: str
    target: str
    control_topic: str
    group: str = ""
    lease_ms: int = 3_000


def main(order: WorkerOrder) -> None:
    if not order.form:
        return _plain(order)
    with _participant(order) as worker:
        number = 0
        while not _is_over():
            number += 1
            try:
                _step(worker, order, number)
            except (LeaseLost, NotDelivered, NotCommitted, ControlUnavailable) as problem:
                sys.stderr.write(f"once more: {type(problem).__name__}\n")
    return None


def _step(worker: Participant, order: WorkerOrder, number: int) -> None:
    found = worker.poll(PAUSE_S)
    if order.source:
        if found is not None:
            output = _output(found.topic, found.partition, found.offset)
            worker.produce(order.target, output, partition=_to(found.partition, found.offset))
            worker.commit()
    else:
        worker.produce(order.target, b"order %d" % number, partition=number % PARTITIONS)
        time.sleep(ORDERS_EVERY_S)


def _to(partition: int, offset: int) -> int:
    """Mostly another partition, which another broker leads."""
    return (partition + 1 + offset) % PARTITIONS


def _output(topic: str, partition: int, offset: int) -> bytes:
    return json.dumps([topic, partition, offset]).encode()


def _is_over() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def _participant(order: WorkerOrder) -> Participant:
    form = Form(order.form)
    settings = Settings(form=form, name=order.name, lease_ms=order.lease_ms, control_topic=order.control_topic)
    topics = [order.source] if order.source else []
    if order.client == "confluent":
        producer = {"bootstrap.servers": order.bootstrap, "linger.ms": 0}
        reads = _reads(order) if topics else None
        return confluent.participant(producer=producer, consumer=reads, topics=topics, settings=settings)
    to = {"bootstrap_servers": order.bootstrap}
    reading = {
        **to,
        "group_id": order.group,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 1_000,
        "fetch_max_wait_ms": 20,
    }
    return kafka_python.participant(producer=to, consumer=reading if topics else None, topics=topics, settings=settings)


def _reads(order: WorkerOrder) -> dict[str, str | int]:
    """For the consumer of confluent-kafka, with stamps or without."""
    return {
        "bootstrap.servers": order.bootstrap,
        "group.id": order.group,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 6_000,
        "fetch.wait.max.ms": 20,
    }


def _plain(order: WorkerOrder) -> None:
    producer = Producer({"bootstrap.servers": order.bootstrap, "linger.ms": 0, "acks": "all"})
    number = 0
    if not order.source:
        while not _is_over():
            number += 1
            producer.produce(order.target, b"order %d" % number, partition=number % PARTITIONS)
            producer.poll(ORDERS_EVERY_S)
            time.sleep(ORDERS_EVERY_S)
        producer.flush()
        return
    consumer = Consumer({**_reads(order), "enable.auto.commit": False})
    consumer.subscribe([order.source])
    while not _is_over():
        found = consumer.poll(PAUSE_S)
        if found is not None and found.error() is None:
            partition, offset = found.partition() or 0, found.offset() or 0
            output = _output(order.source, partition, offset)
            producer.produce(order.target, output, partition=_to(partition, offset))
            producer.flush()
            consumer.commit(asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main(WorkerOrder(**json.loads(sys.argv[1])))
