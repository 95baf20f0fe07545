"""Orders that three processes hand on: written, paid, mailed; two client libraries, no transactions.

One at random is killed and started again, and now and then another one joins its group. What comes back from a backup
is judged by an independent client and by what the records themselves say.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from offsite.demo.data import TopicRecords, read_topic
from offsite.log.range import TopicPartition as LogPartition
from tests.integration.cluster.relay_worker import PARTITIONS, WorkerOrder
from tests.integration.kafka.cluster import Cluster, wait_until

WORKER = Path(__file__).parent / "relay_worker.py"
LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """`form` empty: nobody stamps anything."""

    bootstrap: str
    name: str
    form: str

    @property
    def topics(self) -> tuple[str, str, str]:
        return f"orders-{self.name}", f"paid-{self.name}", f"mailed-{self.name}"

    @property
    def control_topic(self) -> str:
        return f"control-{self.name}"

    @property
    def groups(self) -> tuple[str, str]:
        return f"payers-{self.name}", f"mailers-{self.name}"

    def make_topics(self) -> None:
        """One replica each: what one broker has, no other waits for."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        made = admin.create_topics([NewTopic(each, PARTITIONS, 1) for each in self.topics])
        for each in made.values():
            each.result(LIMIT_S)

    def orders(self) -> tuple[WorkerOrder, ...]:
        orders, paid, mailed = self.topics
        payers, mailers = self.groups
        first = WorkerOrder(
            client="confluent",
            form=self.form,
            name="shop",
            bootstrap=self.bootstrap,
            source="",
            target=orders,
            control_topic=self.control_topic,
        )
        return (
            first,
            replace(first, client="kafka_python", name="payer", source=orders, target=paid, group=payers),
            replace(first, name="mailer", source=paid, target=mailed, group=mailers),
        )


@dataclass(slots=True)
class _Crew:
    """The processes of a relay, and those that join for a while."""

    relay: Relay
    folder: Path
    rng: random.Random
    working: list[tuple[WorkerOrder, subprocess.Popen[bytes]]] = field(default_factory=list)
    more: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def begin(self) -> None:
        self.working = [(order, self._start(order)) for order in self.relay.orders()]

    def disturb(self) -> None:
        """Kill one and start it again, or let another one join its group, or leave it."""
        if self.more:
            process = self.more.pop()
            process.kill() if self.rng.random() < 0.5 else _end(process)
            process.wait(LIMIT_S)
            return
        place = self.rng.randrange(len(self.working))
        order, process = self.working[place]
        if order.source and self.rng.random() < 0.5:
            self.more.append(self._start(replace(order, name=f"{order.name}-2")))
            return
        process.kill()
        process.wait(LIMIT_S)
        self.working[place] = (order, self._start(order))

    def check(self) -> None:
        """Nobody has ended by himself."""
        ended = [order.name for order, process in self.working if process.poll() is not None]
        assert not ended, f"{ended}: {(self.folder / f'{self.relay.name}.log').read_text()[-2000:]}"

    def end(self) -> None:
        for process in (*self.more, *(process for _, process in self.working)):
            _end(process)
        for process in (*self.more, *(process for _, process in self.working)):
            try:
                process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, order: WorkerOrder) -> subprocess.Popen[bytes]:
        with (self.folder / f"{self.relay.name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, str(WORKER), json.dumps(asdict(order))], stdin=subprocess.PIPE, stdout=log, stderr=log
            )


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


@contextmanager
def running(relay: Relay, folder: Path, *, seed: int) -> Iterator[_Crew]:
    crew = _Crew(relay, folder, random.Random(seed))
    crew.begin()
    try:
        _await_mail(relay)
        yield crew
        crew.check()
    finally:
        crew.end()


def _await_mail(relay: Relay) -> None:
    admin = Cluster(relay.bootstrap).admin
    mailed = [LogPartition(topic=relay.topics[2], partition=each) for each in range(PARTITIONS)]
    wait_until(lambda: any(admin.end_offsets(mailed).values()), limit_s=LIMIT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a restored relay lacks: `orphans` are records whose input is not there; `lost` are inputs that count as read
    whose output is not there. `records`: how many it has."""

    orphans: tuple[str, ...]
    lost: tuple[str, ...]
    records: int

    @property
    def is_consistent(self) -> bool:
        return not self.orphans and not self.lost


def audit(relay: Relay, bootstrap: str, names: Mapping[str, str]) -> Found:
    """`names`: topic of the relay → its name at `bootstrap`, where it has the source's offsets."""
    read = {topic: read_topic(bootstrap, name) for topic, name in names.items()}
    orphans, lost = list[str](), list[str]()
    stages = list(zip(relay.topics, relay.topics[1:], relay.groups, strict=False))
    for source, target, group in stages:
        offsets = {partition: {each.offset for each in records} for partition, records in read[source].items()}
        handled = _handled(read[target])
        orphans += [f"{target} has {each}" for each in handled if each[2] not in offsets[each[1]]]
        for partition, committed in _committed(bootstrap, group, names[source]).items():
            inputs = (
                each.offset
                for each in read[source][partition]
                if each.offset < committed and each.value is not None  # a marker is no input
            )
            lost += [f"{source}/{partition}@{each}" for each in inputs if (source, partition, each) not in handled]
    records = sum(len(records) for reading in read.values() for records in reading.values())
    return Found(orphans=tuple(orphans), lost=tuple(lost), records=records)


def _handled(reading: TopicRecords) -> set[tuple[str, int, int]]:
    said = (json.loads(each.value) for records in reading.values() for each in records if each.value is not None)
    return {(topic, partition, offset) for topic, partition, offset in said}


def _committed(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        asked = [TopicPartition(topic, each) for each in range(PARTITIONS)]
        return {each.partition: max(0, each.offset) for each in reader.committed(asked, timeout=LIMIT_S)}
    finally:
        reader.close()
