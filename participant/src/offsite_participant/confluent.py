"""Participants over confluent-kafka, imported when a participant is made, not with the module."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from offsite_participant.control import CONTROL_PARTITION, CONTROL_TOPIC_CONFIG
from offsite_participant.errors import ControlUnavailable, NotCommitted
from offsite_participant.membership import delivery_timeout_ms
from offsite_participant.number import Form, Header, TopicPartition
from offsite_participant.participant import Assignment, Participant, Settings
from offsite_participant.ports import ANSWER_S, Committed, ControlRead, Outgoing, Record, first_to_read, until_read

if TYPE_CHECKING:
    import confluent_kafka

_ANY = -1
"""The client chooses the partition."""

Config = Mapping[str, str | int | float | bool]


def participant(
    *, producer: Config, consumer: Config | None = None, topics: Sequence[str] = (), settings: Settings = Settings()
) -> Participant:
    """Make a participant that reads `topics` in the group of `consumer`; both configurations are as in confluent-kafka.
    Without `consumer` the participant only produces. Settings that a participant needs override both configurations: no
    automatic commits, `acks=all`, and in form B `message.timeout.ms`. Makes the control topic if absent."""
    from confluent_kafka import Consumer, Producer

    reports = Assignment()
    config = {**producer, "acks": "all", "enable.idempotence": True}
    if settings.form is Form.ACKS:
        config["message.timeout.ms"] = delivery_timeout_ms(settings.lease_ms)
    reader = None
    if consumer is not None:
        reader = Consumer({**consumer, "enable.auto.commit": False, "enable.auto.offset.store": False})
        reader.subscribe(
            list(topics),
            on_assign=lambda _, partitions: reports.assigned(map(_where, partitions)),
            on_revoke=lambda _, gone: reports.revoked(map(_where, gone)),
            on_lost=lambda _, gone: reports.revoked(map(_where, gone)),
        )
    client = ConfluentClient(producer=Producer(config), consumer=reader, reports=reports)
    control = ConfluentControl(producer, settings)
    return Participant(client=client, control=control, reports=reports, settings=settings)


class ConfluentClient:
    """`consumer` already reports its assignments to `reports`. Client errors that are not ours pass through."""

    def __init__(
        self, *, producer: confluent_kafka.Producer, consumer: confluent_kafka.Consumer | None, reports: Assignment
    ) -> None:
        self._producer = producer
        self._consumer = consumer
        self._reports = reports

    def take(self, timeout_s: float) -> Record | None:
        from confluent_kafka import KafkaException

        if self._consumer is None:
            self._producer.poll(timeout_s)
            return None
        self._producer.poll(0)
        message = self._consumer.poll(timeout_s)
        if message is None:
            return None
        if problem := message.error():
            if problem.retriable() or problem.code() == problem._PARTITION_EOF:  # noqa: SLF001 - public, says its docs
                return None
            raise KafkaException(problem)
        return _record(message)

    def prepare(self, topic: str) -> None:  # noqa: ARG002 - librdkafka looks topics up by itself
        self._producer.poll(0)

    def send(self, record: Outgoing) -> bool:
        try:
            self._producer.produce(
                record.topic,
                record.value,
                record.key,
                partition=_ANY if record.partition is None else record.partition,
                headers=list(record.headers),
                on_delivery=self._report,
            )
        except BufferError:
            self._producer.poll(0.1)
            return False
        except Exception as problem:
            self._reports.given_up(str(problem))
            raise
        return True

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Committed]:
        from confluent_kafka import TopicPartition as Theirs

        requested = [Theirs(partition.topic, partition.partition) for partition in partitions]
        answers = self._reader.committed(requested, timeout=ANSWER_S)
        return {
            _where(answer): Committed(offset=answer.offset, metadata=answer.metadata or "")
            for answer in answers
            if answer.offset >= 0
        }

    def commit(self, offsets: Mapping[TopicPartition, int], metadata: str) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Theirs

        requested = [
            Theirs(partition.topic, partition.partition, offset, metadata) for partition, offset in offsets.items()
        ]
        try:
            answers = self._reader.commit(offsets=requested, asynchronous=False)
        except KafkaException as problem:
            raise NotCommitted(f"the group did not take the offsets: {problem}") from problem
        if refused := next((answer.error for answer in answers if answer.error), None):
            raise NotCommitted(f"the group did not take the offsets: {refused}")

    def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        from confluent_kafka import TopicPartition as Theirs

        for partition, offset in positions.items():
            self._reader.seek(Theirs(partition.topic, partition.partition, offset))

    def flush(self) -> None:
        while self._producer.flush(ANSWER_S):
            """Every record is given up in the end, so the loop ends."""

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

    @property
    def _reader(self) -> confluent_kafka.Consumer:
        if self._consumer is None:
            raise ValueError("this participant has no consumer")
        return self._consumer

    def _report(self, problem: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if problem is not None:
            self._reports.given_up(str(problem))
        else:
            record = _record(message)
            self._reports.delivered(record.where, record.offset)


class ConfluentControl:
    """The control topic with separate clients: records do not wait behind the application's."""

    def __init__(self, connection: Config, settings: Settings) -> None:
        """`connection`: the configuration of a producer."""
        from confluent_kafka import Consumer, Producer

        self.topic = settings.control_topic
        shared = {name: value for name, value in connection.items() if name.startswith(_CONNECTION)}
        _make_topic(shared, self.topic)
        limit_ms = int(ANSWER_S * 1000)
        self._producer = Producer({**shared, "acks": "all", "enable.idempotence": True, "message.timeout.ms": limit_ms})
        # A group id is required, but no group is joined. Deleted records are an error: nothing is skipped.
        consumer_config = {
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": _FETCH_WAIT_MS,
        }
        self._consumer = Consumer({**shared, "group.id": self.topic, **consumer_config})

    def append(self, value: bytes) -> None:
        from confluent_kafka import KafkaException

        reported = threading.Event()
        problems: list[confluent_kafka.KafkaError] = []

        def report(problem: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
            problems.extend([problem] if problem is not None else [])
            reported.set()

        try:
            self._producer.produce(self.topic, value, partition=CONTROL_PARTITION, on_delivery=report)
        except (BufferError, KafkaException) as problem:  # such as a deleted topic
            raise ControlUnavailable(f"cannot write to {self.topic}: {problem}") from problem
        while not reported.is_set():
            self._producer.poll(0.05)
        if problems:
            raise ControlUnavailable(f"cannot write to {self.topic}: {problems[0]}")

    def read_from(self, offset: int) -> ControlRead:
        from confluent_kafka import KafkaException

        return until_read(partial(self._read, offset), KafkaException, self.topic)

    def close(self) -> None:
        self._consumer.close()

    def _read(self, offset: int) -> ControlRead:
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Theirs

        low, high = self._consumer.get_watermark_offsets(Theirs(self.topic, CONTROL_PARTITION), timeout=ANSWER_S)
        at = first_to_read(offset, low=low, high=high)
        if at == high:
            return ControlRead(end=high)
        # Only while records are available: a fetch that waits for more would delay the next question.
        self._consumer.assign([Theirs(self.topic, CONTROL_PARTITION, at)])
        values: list[bytes | None] = []
        try:
            while at < high:
                message = self._consumer.poll(ANSWER_S)
                if message is None:
                    raise ControlUnavailable(f"{self.topic} did not answer within {ANSWER_S:.0f} s")
                if problem := message.error():
                    raise KafkaException(problem)
                values.append(message.value())
                at = _record(message).offset + 1
        finally:
            self._consumer.unassign()
        return ControlRead(values=tuple(values), end=at)


_FETCH_WAIT_MS = 10
_CONNECTION = ("bootstrap.", "security.", "sasl.", "ssl.", "client.", "broker.address.", "socket.", "oauth")


def _make_topic(connection: Config, topic: str) -> None:
    """Make the topic. A principal without the right needs none if the topic exists: reading it tells."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    new = NewTopic(topic, num_partitions=1, replication_factor=-1, config=dict(CONTROL_TOPIC_CONFIG))
    admin = AdminClient(dict(connection))
    with contextlib.suppress(KafkaException):
        admin.create_topics([new], operation_timeout=ANSWER_S)[topic].result(ANSWER_S)


def _record(message: confluent_kafka.Message) -> Record:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise ValueError("a message of no partition")
    _, timestamp_ms = message.timestamp()
    headers = cast("list[Header]", message.headers() or [])
    return Record(
        topic=topic,
        partition=partition,
        offset=offset,
        key=message.key(),
        value=message.value(),
        headers=tuple(headers),
        timestamp_ms=timestamp_ms,
    )


def _where(partition: confluent_kafka.TopicPartition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)
