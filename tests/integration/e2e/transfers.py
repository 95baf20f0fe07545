"""An exactly-once application in two stages, and its audit: what Kafka's documents call consume, process, produce.

Orders are paid (one payment, and two entries of a ledger that add up to nothing), payments get receipts. Each worker
reads committed records, writes and commits its offsets in one transaction; it aborts some, dies inside some, and others
take over. Workers write into the same partitions, so their transactions always overlap. Where it `deletes`, it lets
brokers delete what was read, after each commit: as Streams does with its repartition topics.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from offsite.demo.data import TopicRecords, read_topic
from tests.integration.kafka.cluster import Cluster

ERRORS_ONLY = 3
ORDERS, PAID, LEDGER, RECEIPTS = "orders", "paid", "ledger", "receipts"
STAGES = {ORDERS: (PAID, LEDGER), PAID: (RECEIPTS,)}
"""What each stage reads, and what it writes for each record that it reads."""
PARTITIONS = {ORDERS: 4, PAID: 3, LEDGER: 2, RECEIPTS: 3}
ABORTS, DEATHS = 0.1, 0.03
_BEFORE = -1

Names = Mapping[str, str]
"""The topics of the application, by what they are for."""


def make_topics(cluster: Cluster) -> Names:
    return {name: cluster.make_topic(partitions=count) for name, count in PARTITIONS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """Where it runs, on which topics. `family`: what its groups are named after; `deletes`: what they have read."""

    bootstrap: str
    names: Names
    family: str
    deletes: bool = False

    def group(self, stage: str) -> str:
        return f"{stage}-of-{self.family}"

    def at(self, bootstrap: str, names: Names) -> Application:
        return replace(self, bootstrap=bootstrap, names=names)


@dataclass(slots=True)
class _Running:
    application: Application
    over: threading.Event = field(default_factory=threading.Event)
    faults: list[BaseException] = field(default_factory=list)


@contextmanager
def running(application: Application, *, workers: int = 3, seed: int = 1, orders_per_s: int = 300) -> Iterator[None]:
    """The application under way, with orders coming in, until the end of the block."""
    state = _Running(application)
    threads = [threading.Thread(target=_guarded, args=(state, lambda: _feed(state, orders_per_s)))]
    for stage in STAGES:
        for number in range(workers):
            chance = random.Random(f"{seed}/{stage}/{number}")
            work = _Worker(application, stage, number, chance).work
            threads.append(threading.Thread(target=_guarded, args=(state, lambda work=work: work(state.over.is_set))))
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        state.over.set()
        for thread in threads:
            thread.join()
    assert not state.faults, state.faults[0]


def drain(application: Application) -> None:
    """Run one quiet worker of each stage until it has read everything."""
    for stage in STAGES:
        worker = _Worker(application, stage, 0, None)
        worker.work(lambda worker=worker: worker.has_read_all())


def _guarded(state: _Running, work: Callable[[], None]) -> None:
    try:
        work()
    except BaseException as error:
        state.faults.append(error)
        state.over.set()
        raise


def _feed(state: _Running, orders_per_s: int) -> None:
    producer = Producer(
        {"bootstrap.servers": state.application.bootstrap, "enable.idempotence": True, "log_level": ERRORS_ONLY}
    )
    number = sum(end for _, end in _bounds(state.application, ORDERS).values())  # where it was stopped
    while not state.over.wait(0.02):
        for _ in range(orders_per_s // 50):
            number += 1
            topic = state.application.names[ORDERS]
            producer.produce(topic, b"%d" % number, partition=number % PARTITIONS[ORDERS])
        producer.poll(0)
    assert producer.flush(30) == 0


class _Worker:
    """One member of a stage. `chance` decides when it aborts or dies; None: never."""

    def __init__(self, application: Application, stage: str, number: int, chance: random.Random | None) -> None:
        self._application, self._stage, self._number = application, stage, number
        self._chance = chance
        self._consumer: Consumer | None = None
        self._idle = 0
        servers = {"bootstrap.servers": application.bootstrap, "log_level": ERRORS_ONLY}
        self._admin = AdminClient(servers) if application.deletes and chance is not None else None

    def has_read_all(self) -> bool:
        return self._idle > 3

    def work(self, is_over: Callable[[], bool]) -> None:
        producer = self._producer()
        self._consumer = self._member()
        while not is_over():
            found = [each for each in self._consumer.consume(self._batch(), timeout=0.1) if each.error() is None]
            if not found:
                is_assigned = bool(self._consumer.assignment())
                self._idle += is_assigned
                continue
            self._idle = 0
            try:
                self._transact(producer, found)
            except _DiedError:
                self._consumer.close()
                producer, self._consumer = self._producer(), self._member()
            except KafkaException as error:  # a rebalance, mostly: whatever it was, start anew
                if not error.args[0].txn_requires_abort():
                    producer = self._producer()
                else:
                    producer.abort_transaction()
                self._consumer.close()
                self._consumer = self._member()
        self._consumer.close()

    def _transact(self, producer: Producer, found: list[Message]) -> None:
        assert self._consumer is not None
        producer.begin_transaction()
        for message in found:
            self._process(producer, int(message.value() or b""))
        if self._happens(DEATHS):
            producer.flush()
            raise _DiedError
        positions = self._consumer.position(self._consumer.assignment())
        read = [each for each in positions if each.offset >= 0]
        producer.send_offsets_to_transaction(read, self._consumer.consumer_group_metadata())
        if self._happens(ABORTS):
            producer.flush()  # an abort that overtakes records under way leaves a hole in their sequence numbers
            producer.abort_transaction()
            self._go_back(found)
        else:
            producer.commit_transaction()
            if self._admin is not None:
                for deleted in self._admin.delete_records(read).values():
                    deleted.result()

    def _process(self, producer: Producer, number: int) -> None:
        names = self._application.names
        for topic in STAGES[self._stage]:
            entries = (b"%d -%d", b"%d %d") if topic == LEDGER else (b"%d",)
            for place, form in enumerate(entries):
                value = form % ((number, number) if topic == LEDGER else number)
                producer.produce(names[topic], value, partition=(number + place) % PARTITIONS[topic])

    def _go_back(self, found: list[Message]) -> None:
        assert self._consumer is not None
        first: dict[tuple[str, int], int] = {}
        for message in found:
            first.setdefault((message.topic(), message.partition()), message.offset())
        for (topic, partition), offset in first.items():
            self._consumer.seek(TopicPartition(topic, partition, offset))

    def _happens(self, probability: float) -> bool:
        return self._chance is not None and self._chance.random() < probability

    def _batch(self) -> int:
        return self._chance.randint(1, 20) if self._chance else 500

    def _producer(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._application.bootstrap,
                "transactional.id": f"{self._application.group(self._stage)}-{self._number}",
                "log_level": ERRORS_ONLY,
                "linger.ms": 2,
            }
        )
        producer.init_transactions(60)
        return producer

    def _member(self) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self._application.bootstrap,
                "group.id": self._application.group(self._stage),
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 10,
                "log_level": ERRORS_ONLY,
            }
        )
        consumer.subscribe([self._application.names[self._stage]])
        return consumer


class _DiedError(Exception):
    """A worker that dies inside a transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What is wrong, in words, and how many orders there are."""

    orders: int
    faults: tuple[str, ...]


def audit(application: Application, *, is_drained: bool = False) -> Audit:
    """Each record read has its outputs, exactly once; each other one has none. `is_drained`: all are read.

    Orders that were deleted have been read: which they are, their partition and offset say. So have payments that were
    deleted: the ledger has them still."""
    read = {name: read_topic(application.bootstrap, topic) for name, topic in application.names.items()}
    faults: list[str] = []
    for stage, outputs in STAGES.items():
        committed = _committed(application, stage)
        inputs = [*_numbers(read[stage]), *_deleted(application, read, stage)]
        for output in outputs:
            outcomes = [*_numbers(read[output]), *_deleted(application, read, output)]
            made = Counter(number for _, _, number in outcomes)
            due = {number for partition, offset, number in inputs if is_drained or offset < committed[partition]}
            wanted = 2 if output == LEDGER else 1
            faults += _faults(stage, output, due, made, wanted)
    total = sum(int(record.value.split()[1]) for part in read[LEDGER].values() for record in part if record.value)
    if total:
        faults.append(f"the ledger adds up to {total}")
    orders = [*_numbers(read[ORDERS]), *_deleted(application, read, ORDERS)]
    return Audit(orders=len(orders), faults=tuple(faults))


def _faults(stage: str, output: str, due: set[int], made: Counter[int], wanted: int) -> Iterator[str]:
    lost = sorted(number for number in due if made[number] < wanted)
    twice = sorted(number for number, count in made.items() if count > wanted)
    early = sorted(number for number in made if number not in due)
    for what, numbers in (("lost", lost), ("made twice", twice), ("made but not read", early)):
        if numbers:
            yield f"{stage} to {output}: {len(numbers)} {what}, such as {numbers[:5]}"


def _numbers(reading: TopicRecords) -> list[tuple[int, int, int]]:
    return [
        (partition, record.offset, int((record.value or b"").split()[0]))
        for partition, records in reading.items()
        for record in records
    ]


def _deleted(application: Application, read: Mapping[str, TopicRecords], name: str) -> Iterator[tuple[int, int, int]]:
    """What was deleted of a topic, as before all offsets: also between what an earlier commit and a later one hold."""
    if name == PAID and application.deletes:
        kept = {number for _, _, number in _numbers(read[PAID])}
        yield from ((0, _BEFORE, number) for number in sorted({each for *_, each in _numbers(read[LEDGER])} - kept))
    elif name == ORDERS:
        step = PARTITIONS[ORDERS]
        for partition, (_, end) in _bounds(application, ORDERS).items():
            kept = {record.offset for record in read[ORDERS][partition]}
            first = partition or step  # they are numbered from 1 on, and partitions have each step-th
            yield from ((partition, _BEFORE, first + step * offset) for offset in range(end) if offset not in kept)


def _bounds(application: Application, name: str) -> dict[int, tuple[int, int]]:
    """The offsets that each partition of a topic has, its end exclusive."""
    consumer = Consumer({"bootstrap.servers": application.bootstrap, "group.id": "nobody"})
    try:
        of = [TopicPartition(application.names[name], number) for number in range(PARTITIONS[name])]
        return {each.partition: consumer.get_watermark_offsets(each, timeout=30) for each in of}
    finally:
        consumer.close()


def _committed(application: Application, stage: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": application.bootstrap, "group.id": application.group(stage)})
    asked = [TopicPartition(application.names[stage], number) for number in range(PARTITIONS[stage])]
    try:
        return {each.partition: max(each.offset, 0) for each in consumer.committed(asked, timeout=30)}
    finally:
        consumer.close()
