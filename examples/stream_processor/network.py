"""How messages get to a partition: a topic that its leader reads. It may lose, double and overtake; senders repeat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from examples.stream_processor.place import Place
from examples.stream_processor.records import Message, message_bytes, read_message

BATCH = 500
WAIT_S = 0.02


class Network:
    """The sending end. Without `stamps` no message says what checkpoint its sender has: to see what goes wrong then."""

    def __init__(self, place: Place, *, stamps: bool = True) -> None:
        self._topic, self._stamps = place.inbox_topic, stamps
        self._producer = Producer({"bootstrap.servers": place.bootstrap, "linger.ms": 1, "message.timeout.ms": 10_000})

    def send(self, message: Message, *, checkpoint: int = 0) -> None:
        """Send it on behalf of a partition that now has `checkpoint`. What does not arrive is lost."""
        stamped = replace(message, checkpoint=checkpoint if self._stamps else 0)
        try:
            self._producer.produce(self._topic, message_bytes(stamped), partition=message.to - 1)
        except BufferError:
            self._producer.poll(WAIT_S)

    def flush(self) -> None:
        self._producer.flush(10)


class Inbox:
    """The receiving end. Each partition's inbox is assigned to one member of a consumer group, which leads the
    partition. That two believe so for a while is harmless: see `log`."""

    def __init__(self, place: Place) -> None:
        self.assigned: set[int] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": place.bootstrap,
                "group.id": f"{place.name}-leaders",
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                "fetch.wait.max.ms": 50,
                "auto.commit.interval.ms": 500,
            }
        )
        self._consumer.subscribe([place.inbox_topic], on_assign=self._gain, on_revoke=self._lose, on_lost=self._lose)

    def receive(self) -> Mapping[int, list[Message]]:
        """What came in, by partition. Raises `ValueError` for a message of a version that is not known."""
        found: dict[int, list[Message]] = {}
        for each in self._consumer.consume(BATCH, timeout=WAIT_S):
            if not each.error():
                found.setdefault((each.partition() or 0) + 1, []).append(read_message(each.value() or b""))
        return found

    def close(self) -> None:
        try:
            self._consumer.close()
        except KafkaException:
            return  # the group notices that we are gone

    def _gain(self, _consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        self.assigned |= {each.partition + 1 for each in partitions}

    def _lose(self, _consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        self.assigned -= {each.partition + 1 for each in partitions}
