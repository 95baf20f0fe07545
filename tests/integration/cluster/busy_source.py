"""A source that never rests: topics that are written to at full speed, grown, trimmed, deleted and made anew.

What a broker acknowledged is remembered here, by an independent client: the truth that a backup is judged by. Each
partition has one idempotent writer, so that offsets, numbers and times of its records rise together.
"""

from __future__ import annotations

import math
import random
import threading
import time
import uuid
from array import array
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, TopicDescription

from tests.integration.kafka.cluster import wait_until

LIMIT_S = 60.0
PADDING = b"." * 400
_MENDED_SOON = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_CONTROLLER,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._TRANSPORT,
}
EXPIRING = {"retention.ms": "2000", "segment.ms": "1000"}


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one partition in the order of offsets. `times_s`: when they were acknowledged."""

    offsets: array[int] = field(default_factory=partial(array, "q"))
    numbers: array[int] = field(default_factory=partial(array, "q"))
    times_s: array[float] = field(default_factory=partial(array, "d"))


@dataclass(slots=True, kw_only=True)
class Life:
    """One incarnation of a topic: what was `sent` to its partitions, and what of that was acknowledged. `is_losing`:
    brokers delete from it. `deleted_s`: when its deletion was asked for."""

    topic: str
    topic_id: str
    is_losing: bool
    sent: dict[int, int] = field(default_factory=dict)
    acked: dict[int, Records] = field(default_factory=dict)
    deleted_s: float = math.inf

    def have_partitions(self, count: int) -> None:
        for partition in range(count):
            self.acked.setdefault(partition, Records())
            self.sent.setdefault(partition, 0)

    @property
    def records(self) -> int:
        return sum(len(each.offsets) for each in self.acked.values())


def value_of(topic_id: str, partition: int, number: int) -> bytes:
    return b"%s %d %d %s" % (topic_id.encode(), partition, number, PADDING[: number % len(PADDING)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """`burst` records for each partition, `pause_s` seconds, and again: full speed is without a pause."""

    burst: int = 100
    pause_s: float = 0.0


class Writer:
    """Writes to all partitions of one life until it is stopped: then all is acknowledged."""

    def __init__(self, bootstrap: str, life: Life, pace: Pace) -> None:
        self._life, self._pace, self._over = life, pace, threading.Event()
        settings = {"enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": 600_000, "log_level": 0}
        self._client = Producer({"bootstrap.servers": bootstrap, "topic.metadata.refresh.interval.ms": 500, **settings})
        self._thread = threading.Thread(target=self._write, name=f"writer of {life.topic}")
        self.failures: list[KafkaError] = []
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        assert not self._client.flush(LIMIT_S), f"{self._life.topic}: brokers did not acknowledge"
        assert not self.failures, self.failures[0]

    def _write(self) -> None:
        while not self._over.wait(self._pace.pause_s):
            for partition in tuple(self._life.sent):
                for _ in range(self._pace.burst):
                    self._send(partition)
            self._client.flush(1)

    def _send(self, partition: int) -> None:
        life = self._life
        number = life.sent[partition]
        value = value_of(life.topic_id, partition, number)
        try:
            self._client.produce(
                life.topic, value, partition=partition, on_delivery=partial(self._acknowledged, number)
            )
        except (BufferError, KafkaException):  # full, or the new partition is not known yet
            self._client.poll(0.1)
            return
        life.sent[partition] += 1

    def _acknowledged(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error)
            return
        records = self._life.acked[message.partition() or 0]
        records.offsets.append(message.offset() or 0)
        records.numbers.append(number)
        records.times_s.append(time.time())


class BusySource:
    """The topics of one prefix, and what happens to them. Each action returns when brokers have done it."""

    def __init__(self, bootstrap: str, prefix: str, rng: random.Random) -> None:
        self.lives: list[Life] = []
        self.pace = Pace()
        self._bootstrap, self._prefix, self._rng = bootstrap, prefix, rng
        self._admin = _admin(bootstrap)
        self._writers: dict[str, Writer] = {}

    @property
    def living(self) -> list[Life]:
        return [life for life in self.lives if life.deleted_s == math.inf]

    def life(self, name: str) -> Life:
        """The life that the topic has now, or had last."""
        return next(each for each in reversed(self.lives) if each.topic == f"{self._prefix}-{name}")

    def make(
        self, name: str, *, partitions: int = 2, configs: dict[str, str] | None = None, pace: Pace | None = None
    ) -> None:
        """A new topic, and its writer."""
        topic = f"{self._prefix}-{name}"
        settings = {"min.insync.replicas": "2", **(configs or {})}
        new = NewTopic(topic, num_partitions=partitions, config=settings)
        _done(lambda: self._admin.create_topics([new]))
        wait_until(lambda: self._partitions(topic) == partitions)
        life = Life(topic=topic, topic_id=self._topic_id(topic), is_losing=bool(configs))
        assert life.topic_id not in {each.topic_id for each in self.lives}
        life.have_partitions(partitions)
        self.lives.append(life)
        self._writers[topic] = Writer(self._bootstrap, life, pace or self.pace)

    def grow(self, name: str) -> None:
        """One more partition."""
        life = self.life(name)
        more = NewPartitions(life.topic, len(life.sent) + 1)
        _done(lambda: self._admin.create_partitions([more]))
        life.have_partitions(len(life.sent) + 1)

    def trim(self, name: str) -> None:
        """DeleteRecords, up to anywhere in what there is."""
        life = self.life(name)
        life.is_losing = True
        for partition, records in life.acked.items():
            if len(records.offsets):
                before = self._rng.choice(records.offsets) + 1
                _done(partial(self._delete_before, life, partition, before))

    def delete(self, name: str) -> None:
        life = self.life(name)
        self._writers.pop(life.topic).stop()
        life.deleted_s = time.time()
        self._admin.delete_topics([life.topic])[life.topic].result(LIMIT_S)
        wait_until(lambda: not self._partitions(life.topic))

    def make_anew(self, name: str) -> None:
        self.delete(name)
        self.make(name, partitions=self._rng.randint(1, 3))

    def low(self, life: Life, partition: int) -> int:
        """The first offset that brokers have."""
        client = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "busy", "log_level": 0})
        try:
            first, _ = client.get_watermark_offsets(TopicPartition(life.topic, partition), timeout=LIMIT_S)
            return int(first)
        finally:
            client.close()

    def stop(self) -> None:
        """No more records: all that were sent are acknowledged."""
        while self._writers:
            self._writers.popitem()[1].stop()

    def _delete_before(self, life: Life, partition: int, offset: int) -> Mapping[object, Future[object]]:
        before = max(offset, self.low(life, partition))
        self._admin = _admin(self._bootstrap)  # the one before would go on asking the leader that it knows
        asked = TopicPartition(life.topic, partition, before)
        found: Mapping[object, Future[object]] = self._admin.delete_records([asked])
        return found

    def _partitions(self, topic: str) -> int:
        listed = self._admin.list_topics(timeout=LIMIT_S).topics
        return len(listed[topic].partitions) if topic in listed else 0

    def _topic_id(self, topic: str) -> str:
        """Asked again while the broker asked has not heard of it."""
        asked: Future[TopicDescription] = self._admin.describe_topics(TopicCollection([topic]))[topic]
        try:
            found = asked.result(LIMIT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return self._topic_id(topic)
        bits = found.topic_id.get_most_significant_bits(), found.topic_id.get_least_significant_bits()
        high, low = (each % (1 << 64) for each in bits)
        return str(uuid.UUID(int=high << 64 | low))


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def _done(ask: Callable[[], Mapping[object, Future[object]]]) -> None:
    """What was asked for is done; asked again while a broker that is asked has not heard of the newest leader."""
    wait_until(lambda: _is_done(ask().values()), limit_s=LIMIT_S)


def _is_done(futures: Iterable[Future[object]]) -> bool:
    try:
        for each in futures:
            each.result(LIMIT_S)
    except KafkaException as error:
        if error.args[0].code() not in _MENDED_SOON:
            raise
        return False
    return True
