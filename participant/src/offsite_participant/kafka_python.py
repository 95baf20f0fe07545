"""Participants over kafka-python, imported when a participant is made, not with the module.

kafka-python 3.0 gives up its producer id when a retried batch expires, and never asks for a new id: from that moment
nothing is sent, and no record is ever reported. Any error as long as the delivery time causes the problem, such as a
recreated topic. After a given-up record a new producer is therefore made, and no wait is without a limit.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from offsite_participant.control import CONTROL_PARTITION, CONTROL_TOPIC_CONFIG
from offsite_participant.errors import ControlUnavailable, NotCommitted
from offsite_participant.membership import delivery_timeout_ms
from offsite_participant.number import Form, TopicPartition
from offsite_participant.participant import Assignment, Participant, Settings
from offsite_participant.ports import ANSWER_S, Committed, ControlRead, Outgoing, Record, first_to_read, until_read

if TYPE_CHECKING:
    from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]


_MARGIN_S = 5.0
"""Seconds beyond the delivery time after which an unreported record counts as given up."""
_ENDS_WITHIN_S = 1.0


class RenewableProducer:
    """Usable from several threads. `config` as in kafka-python. Raises the errors of making a producer."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        from kafka import KafkaProducer

        limits_ms = {**KafkaProducer.DEFAULT_CONFIG, **config}
        self._config = config
        self._lock = threading.Lock()
        self._current: KafkaProducer | None = KafkaProducer(**config)
        self.patience_s = limits_ms["delivery_timeout_ms"] / 1000 + _MARGIN_S

    def current(self) -> KafkaProducer:
        """The producer to send with. Raises `KafkaError` where a new producer is needed and no broker answers."""
        from kafka import KafkaProducer

        with self._lock:
            if self._current is None:
                self._current = KafkaProducer(**self._config)
            return self._current

    def give_up(self, producer: KafkaProducer) -> None:
        """Never send with the producer again. Its unsent records are never sent."""
        with self._lock:
            if self._current is not producer:
                return  # another thread was faster
            self._current = None
        _end(producer)

    def close(self) -> None:
        if self._current is not None:
            self._current.close(timeout=self.patience_s)


def _end(producer: KafkaProducer) -> None:
    """End at once: all records are reported as given up. A regular close would wait for the records for ever."""
    from kafka.errors import KafkaError  # type: ignore[import-untyped]

    with suppress(AttributeError):  # it began to end by itself
        producer._sender.force_close()  # noqa: SLF001 - there is no public way that does not wait
    with suppress(KafkaError):
        producer.close(timeout=_ENDS_WITHIN_S)


Config = Mapping[str, Any]


def participant(
    *, producer: Config, consumer: Config | None = None, topics: Sequence[str] = (), settings: Settings = Settings()
) -> Participant:
    """Make a participant that reads `topics` in the group of `consumer`; both configurations are as in kafka-python,
    without serializers. Without `consumer` the participant only produces. Settings that a participant needs override
    both configurations: no automatic commits, `acks="all"`, and in form B the timeouts of the producer. Makes the
    control topic if absent."""
    from kafka import KafkaConsumer

    reports = Assignment()
    config = {**producer, "acks": "all"}
    if settings.form is Form.ACKS:
        config |= _timeouts(settings.lease_ms)
    reader = None
    if consumer is not None:
        reader = KafkaConsumer(**{**consumer, "enable_auto_commit": False})
        reader.subscribe(list(topics), listener=_listener(reports))
    client = KafkaPythonClient(producer=RenewableProducer(config), consumer=reader, reports=reports)
    control = KafkaPythonControl(producer, settings)
    return Participant(client=client, control=control, reports=reports, settings=settings)


class KafkaPythonClient:
    """`consumer` already reports its assignments to `reports`. Client errors that are not ours pass through."""

    def __init__(self, *, producer: RenewableProducer, consumer: KafkaConsumer | None, reports: Assignment) -> None:
        self._producer = producer
        self._consumer = consumer
        self._reports = reports
        self._sent: deque[tuple[Any, KafkaProducer]] = deque()

    def take(self, timeout_s: float) -> Record | None:
        self._settle()
        if self._consumer is None:
            return None
        batches = self._consumer.poll(timeout_ms=int(timeout_s * 1000), max_records=1)
        return next((_record(message) for batch in batches.values() for message in batch), None)

    def prepare(self, topic: str) -> None:
        self._producer.current().partitions_for(topic)

    def send(self, record: Outgoing) -> bool:
        try:
            producer = self._producer.current()
            sent = producer.send(
                record.topic, record.value, key=record.key, partition=record.partition, headers=record.headers
            )
        except Exception as problem:
            self._reports.given_up(str(problem))
            raise
        self._sent.append((sent, producer))
        return True

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Committed]:
        answers = {partition: self._reader.committed(_theirs(partition), metadata=True) for partition in partitions}
        return {
            partition: Committed(offset=committed.offset, metadata=committed.metadata or "")
            for partition, committed in answers.items()
            if committed is not None and committed.offset >= 0
        }

    def commit(self, offsets: Mapping[TopicPartition, int], metadata: str) -> None:
        from kafka.errors import KafkaError
        from kafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]

        requested = {
            _theirs(partition): OffsetAndMetadata(offset, metadata, -1) for partition, offset in offsets.items()
        }
        try:
            self._reader.commit(requested, timeout_ms=_ANSWER_MS)
        except KafkaError as problem:
            raise NotCommitted(f"the group did not take the offsets: {problem}") from problem

    def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        for partition, offset in positions.items():
            self._reader.seek(_theirs(partition), offset)

    def flush(self) -> None:
        """Wait for all reports. Every record is given up in the end, so the loop ends."""
        while self._sent:
            self._report(*self._sent.popleft())

    def close(self) -> None:
        self._producer.close()
        if self._consumer is not None:
            self._consumer.close(autocommit=False)

    @property
    def _reader(self) -> KafkaConsumer:
        if self._consumer is None:
            raise ValueError("this participant has no consumer")
        return self._consumer

    def _settle(self) -> None:
        while self._sent and self._sent[0][0].is_done:
            self._report(*self._sent.popleft())

    def _report(self, sent: Any, producer: KafkaProducer) -> None:  # noqa: ANN401 - kafka-python has no types
        from kafka.errors import KafkaError

        try:
            metadata = sent.get(timeout=self._producer.patience_s)
        except KafkaError as problem:
            self._reports.given_up(str(problem))
            self._producer.give_up(producer)
        else:
            self._reports.delivered(TopicPartition(metadata.topic, metadata.partition), metadata.offset)


class KafkaPythonControl:
    """The control topic with separate clients: records do not wait behind the application's."""

    def __init__(self, connection: Config, settings: Settings) -> None:
        """`connection`: the configuration of a producer."""
        from kafka import KafkaConsumer

        shared = {name: value for name, value in connection.items() if name.startswith(_CONNECTION)}
        self.topic = settings.control_topic
        _make_topic(shared, self.topic)
        limits = dict.fromkeys(_WAITS, _ANSWER_MS)
        self._producer = RenewableProducer({**shared, "acks": "all", **limits})
        # Deleted records are an error: nothing is skipped.
        self._consumer = KafkaConsumer(**{**shared, "enable_auto_commit": False, "auto_offset_reset": "none"})
        self._where = _theirs(TopicPartition(self.topic, CONTROL_PARTITION))
        self._consumer.assign([self._where])

    def append(self, value: bytes) -> None:
        from kafka.errors import KafkaError

        producer = None
        try:
            producer = self._producer.current()
            sent = producer.send(self.topic, value, partition=CONTROL_PARTITION)
            sent.get(timeout=self._producer.patience_s)
        except (KafkaError, RuntimeError) as problem:  # RuntimeError: another thread gave it up meanwhile
            if producer is not None:
                self._producer.give_up(producer)
            raise ControlUnavailable(f"cannot write to {self.topic}: {problem}") from problem

    def read_from(self, offset: int) -> ControlRead:
        from kafka.errors import KafkaError

        return until_read(partial(self._read, offset), KafkaError, self.topic)

    def close(self) -> None:
        self._producer.close()
        self._consumer.close(autocommit=False)

    def _read(self, offset: int) -> ControlRead:
        high = self._consumer.end_offsets([self._where], timeout_ms=_ANSWER_MS)[self._where]
        if offset == high:
            return ControlRead(end=high)
        low = self._consumer.beginning_offsets([self._where], timeout_ms=_ANSWER_MS)[self._where]
        at = first_to_read(offset, low=low, high=high)
        self._consumer.seek(self._where, at)
        values: list[bytes | None] = []
        while at < high:
            messages = self._consumer.poll(timeout_ms=_ANSWER_MS).get(self._where)
            if not messages:
                raise ControlUnavailable(f"{self.topic} did not answer within {ANSWER_S:.0f} s")
            values.extend(message.value for message in messages)
            at = messages[-1].offset + 1
        return ControlRead(values=tuple(values), end=at)


_ANSWER_MS = int(ANSWER_S * 1000)
_WAITS = ("delivery_timeout_ms", "request_timeout_ms", "max_block_ms", "bootstrap_timeout_ms")
_CONNECTION = ("bootstrap_", "security_", "sasl_", "ssl_", "client_", "socket_")


def _timeouts(lease_ms: int) -> dict[str, int]:
    """The timeouts of the producer. `send` may block before the delivery time begins: half as long again, which the
    lease allows for."""
    limit_ms = delivery_timeout_ms(lease_ms)
    return {
        "delivery_timeout_ms": limit_ms,
        "request_timeout_ms": limit_ms,
        "linger_ms": 0,
        "max_block_ms": limit_ms // 2,
    }


def _make_topic(connection: Config, topic: str) -> None:
    """Make the topic. A principal without the right needs none if the topic exists: reading it tells."""
    from kafka.admin import KafkaAdminClient, NewTopic  # type: ignore[import-untyped]
    from kafka.errors import KafkaError

    new = NewTopic(topic, num_partitions=1, replication_factor=-1, topic_configs=dict(CONTROL_TOPIC_CONFIG))
    with contextlib.closing(KafkaAdminClient(**connection)) as admin, contextlib.suppress(KafkaError):
        admin.create_topics([new])


def _listener(reports: Assignment) -> Any:  # noqa: ANN401 - kafka-python has no types
    from kafka import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            reports.assigned(TopicPartition(partition.topic, partition.partition) for partition in assigned)

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            reports.revoked(TopicPartition(partition.topic, partition.partition) for partition in revoked)

    return Listener()


def _record(message: Any) -> Record:  # noqa: ANN401 - kafka-python has no types
    return Record(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        key=message.key,
        value=message.value,
        headers=tuple(message.headers),
        timestamp_ms=message.timestamp,
    )


def _theirs(where: TopicPartition) -> Any:  # noqa: ANN401 - kafka-python has no types
    from kafka import TopicPartition as Theirs

    return Theirs(where.topic, where.partition)
