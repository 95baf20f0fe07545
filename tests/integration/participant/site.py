"""A broker with topics of a test's own, and participants of either client on it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import TopicPartition as Theirs
from confluent_kafka.admin import AdminClient, NewTopic

from offsite_participant import confluent, kafka_python
from offsite_participant.control import ControlRecord, OpenRecord, format_record, parse_record
from offsite_participant.number import MARKER_KEY, Form, Header, Stamp, marker_headers, stamp_of, stamped
from offsite_participant.participant import Participant, Settings
from offsite_participant.ports import Record

CLIENTS = ("confluent", "kafka_python")
LIMIT_S = 30.0

AnswerT = TypeVar("AnswerT")


@dataclass(kw_only=True)
class Site:
    """`orders` has two partitions, `paid` has one."""

    bootstrap: str
    name: str = field(default_factory=lambda: os.urandom(4).hex())

    def __post_init__(self) -> None:
        self.orders, self.paid, self.control = (f"{each}-{self.name}" for each in ("orders", "paid", "control"))
        self._producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for topic, partitions in ((self.orders, 2), (self.paid, 1), (self.control, 1)):
            admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(LIMIT_S)
        self.admin = admin

    def participant(self, client: str, settings: Settings = Settings(), *, group: str = "payers") -> Participant:
        settings = replace(settings, control_topic=self.control)
        group = f"{group}-{self.name}"
        if client == "confluent":
            shared = {"bootstrap.servers": self.bootstrap}
            reads = {**shared, "group.id": group, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 20}
            return confluent.participant(producer=shared, consumer=reads, topics=[self.orders], settings=settings)
        to = {"bootstrap_servers": self.bootstrap}
        reads = {**to, "group_id": group, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 20}
        return kafka_python.participant(producer=to, consumer=reads, topics=[self.orders], settings=settings)

    def order(self, value: bytes, *, partition: int = 0, number: int | None = None) -> None:
        """Of a participant with that number, which was opened before; None: of somebody else."""
        if number:
            self.open(number)
        stamp = None if number is None else Stamp(number, Form.MARKERS, self.orders, self.control)
        self._write(self.orders, value, partition, stamped([], stamp) if stamp else None)

    def mark(self, number: int, *, partition: int = 0) -> None:
        self.open(number)
        self._write(self.orders, None, partition, marker_headers(number, self.orders, self.control), key=MARKER_KEY)

    def paid_numbers(self) -> list[int | None]:
        """The stamps of all that is paid; None for what has none."""
        stamps = [stamp_of(each.headers(), self.paid) for each in self.read(self.paid)]
        return [each.number if each else None for each in stamps]

    def forget(self, below: int) -> None:
        """Delete the records of the control topic before that offset."""
        where = Theirs(self.control, 0, below)
        self.admin.delete_records([where])[where].result(LIMIT_S)

    def make_control_anew(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.delete(self.control)
        found(lambda: self.control not in self.admin.list_topics(timeout=LIMIT_S).topics or None)
        meanwhile()
        self.admin.create_topics([NewTopic(self.control, 1, 1)])[self.control].result(LIMIT_S)

    def open(self, number: int, form: Form = Form.MARKERS) -> None:
        self._write(self.control, format_record(OpenRecord(id=number, form=form)), 0, None)

    def read(self, topic: str, partition: int = 0) -> Iterator[Message]:
        """All that is there now."""
        where = Theirs(topic, partition, 0)
        reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "none", "fetch.wait.max.ms": 20})
        try:
            _, end = reader.get_watermark_offsets(where, timeout=LIMIT_S)
            reader.assign([where])
            for _ in range(end):
                message = reader.poll(LIMIT_S)
                assert message is not None
                assert message.error() is None
                yield message
        finally:
            reader.close()

    def said(self) -> list[ControlRecord | None]:
        return [parse_record(each.value()) for each in self.read(self.control)]

    def metadata(self, partition: int = 0, *, group: str = "payers") -> tuple[int, str | None]:
        reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": f"{group}-{self.name}"})
        try:
            (found,) = reader.committed([Theirs(self.orders, partition)], timeout=LIMIT_S)
            return found.offset, _text(found)
        finally:
            reader.close()

    def delete(self, *topics: str) -> None:
        for each in self.admin.delete_topics([*topics]).values():
            each.result(LIMIT_S)

    def _write(
        self, topic: str, value: bytes | None, partition: int, headers: list[Header] | None, *, key: bytes | None = None
    ) -> None:
        self._producer.produce(topic, value, key, partition=partition, headers=list(headers or []))
        assert self._producer.flush(LIMIT_S) == 0


def next_of(participant: Participant) -> Record:
    return found(lambda: participant.poll(0.1))


def found(ask: Callable[[], AnswerT | None]) -> AnswerT:
    end_s = time.monotonic() + LIMIT_S
    while time.monotonic() < end_s:
        if (answer := ask()) is not None:
            return answer
    raise AssertionError(f"not within {LIMIT_S:.0f} s")


def _text(found: Theirs) -> str | None:
    """Now and then the client hands out what is no text; then nothing is known."""
    try:
        return found.metadata
    except UnicodeDecodeError:
        return None
