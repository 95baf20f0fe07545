"""The log of one partition in Kafka: written by its leader alone, read by anyone.

A leader is who last called `init_transactions` for the partition's transactional id. Kafka then aborts what the leader
before has open, and refuses everything that it still sends: it cannot append, whatever it believes. All records of one
`append` appear together or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from examples.stream_processor.place import Place
from examples.stream_processor.records import Record, read_record, record_bytes

PATIENCE_S = 30.0

Note = Callable[[KafkaError | None, Message], None]


class Deposed(Exception):
    """This process cannot append any more: another one leads, or Kafka did not answer. It may try to be elected."""


class LogWriter:
    """The leader's end. Raises `Deposed` from everything."""

    def __init__(self, place: Place, partition: int) -> None:
        self._topic, self._partition = place.log_topic, partition - 1
        self._producer = Producer(
            {
                "bootstrap.servers": place.bootstrap,
                "transactional.id": place.transactional_id(partition),
                "transaction.timeout.ms": 20_000,
                "linger.ms": 0,
            }
        )
        self._run(lambda: self._producer.init_transactions(PATIENCE_S))

    def append(self, records: Sequence[Record]) -> list[int]:
        """The offset of each record, once all are durable and visible."""
        offsets: dict[int, int] = {}

        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets[int(message.key() or b"-1")] = message.offset() or 0

        self._run(lambda: self._append(records, note))
        return [offsets[each.position] for each in records]

    def _append(self, records: Sequence[Record], note: Note) -> None:
        self._producer.begin_transaction()
        for each in records:
            self._producer.produce(
                self._topic, record_bytes(each), str(each.position), self._partition, on_delivery=note
            )
        self._producer.commit_transaction(PATIENCE_S)

    def _run(self, step: Callable[[], None]) -> None:
        try:
            step()
        except (KafkaException, BufferError) as error:
            raise Deposed(f"{self._topic}/{self._partition}: {error}") from error


def read_log(place: Place, partition: int, *, offset: int) -> Iterator[tuple[Record, int]]:
    """All committed records from `offset` to the end, with their offsets. Raises `KafkaException`, also where the log
    no longer goes back so far."""
    consumer = Consumer(
        {
            "bootstrap.servers": place.bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
        }
    )
    try:
        consumer.assign([TopicPartition(place.log_topic, partition - 1, offset)])
        while (message := _next(consumer)) is not None:
            yield read_record(message.value() or b""), message.offset() or 0
    finally:
        consumer.close()


def _next(consumer: Consumer) -> Message | None:
    """None at the end of the log."""
    message = consumer.poll(PATIENCE_S)
    if message is None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001, so it is called
    error = message.error()
    if error and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
        raise KafkaException(error)
    return None if error else message


def cut_log(place: Place, partition: int, *, before_offset: int) -> None:
    """Let Kafka remove what is older. It may do less, or later: nobody reads it."""
    admin = AdminClient({"bootstrap.servers": place.bootstrap})
    admin.delete_records([TopicPartition(place.log_topic, partition - 1, before_offset)])
