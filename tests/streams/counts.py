"""A real Kafka Streams application with exactly-once processing (`Counts.java`): the process, its orders, its audit.

It goes through a repartition topic, from which Streams deletes what it has committed, and holds counts and windows in
RocksDB. What has to come out is computed from the orders that are there, by nothing of Streams.
"""

from __future__ import annotations

import functools
import itertools
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from offsite.demo.data import ReadRecord, read_topic
from offsite.engine.local.jvm import spark_home
from offsite.kafka.protocol.metadata import NewTopic
from offsite.sandbox.jars import cache_folder
from offsite.sandbox.java import LONG_RUN
from offsite.sandbox.versions import KAFKA_VERSION, Jar, kafka_jars
from tests.fetched_tools import maven_jars
from tests.integration.kafka.cluster import Cluster, wait_until
from tests.java_program import java_program

_STREAMS = Jar(
    group="org.apache.kafka",
    artifact="kafka-streams",
    version=KAFKA_VERSION,
    sha256="e554318dbc2b07461f714be32bb324744ba993eb7a49f938792beff577d7044b",
)
ORDERS, PASSED, TOTALS, WINDOWS, CUSTOMERS = "orders", "passed", "totals", "windows", "customers-repartition"
PARTITIONS = 3
WINDOW_MS = 10_000
_CUSTOMERS = 40
_START_S, _DRAIN_S = 90, 120
_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The application on a cluster. `family` is its `application.id`, its group and how its topics begin; `purge_ms`:
    how often it deletes what it has committed of its repartition topic (None: as by default, 30 s)."""

    bootstrap: str
    family: str
    purge_ms: int | None = None

    @classmethod
    def made(cls, cluster: Cluster, *, purge_ms: int | None) -> Counts:
        """A new one, whose topics are there."""
        counts = cls(bootstrap=cluster.bootstrap, family=f"counts-{next(_numbers):03}", purge_ms=purge_ms)
        names = [counts.topic(name) for name in (ORDERS, PASSED, TOTALS, WINDOWS)]
        cluster.admin.create_topics([NewTopic(name=name, partitions=PARTITIONS, configs={}) for name in names])
        return counts

    @property
    def pattern(self) -> str:
        """What selects its topics, those that Streams made with them."""
        return f"{self.family}-*"

    def topic(self, name: str) -> str:
        return f"{self.family}-{name}"

    def at(self, bootstrap: str) -> Counts:
        """The same elsewhere. It deletes seldom there, so that whoever looks sees what is left to do."""
        return replace(self, bootstrap=bootstrap, purge_ms=None)


@contextmanager
def running(counts: Counts) -> Iterator[None]:
    """The application under way; it is killed at the end, as with its machine. Its state is not kept."""
    with _process(counts) as process:
        yield
        process.kill()


@contextmanager
def orders_coming_in(counts: Counts, *, per_s: int = 300) -> Iterator[None]:
    over, faults = threading.Event(), list[BaseException]()

    def feed() -> None:
        producer = Producer({"bootstrap.servers": counts.bootstrap, "enable.idempotence": True, "log_level": 3})
        number = 0
        while not over.wait(0.02):
            for _ in range(per_s // 50):
                number += 1
                customer = b"customer %d" % (number * 7919 % _CUSTOMERS)
                producer.produce(counts.topic(ORDERS), customer, b"%d" % number, partition=number % PARTITIONS)
            producer.poll(0)
        if producer.flush(30):
            faults.append(TimeoutError("orders were not acknowledged"))

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not faults, faults[0]


def drain(counts: Counts) -> None:
    """Let it run until it has done all orders, and stop it in good order: its group has no member then."""
    with _process(counts) as process:
        for name in (ORDERS, CUSTOMERS):
            wait_until(partial(_is_done, counts, name), limit_s=_DRAIN_S, every_s=0.2)
        process.terminate()
        process.wait(_START_S)


def faults_of(counts: Counts) -> tuple[str, ...]:
    """What is wrong of an application that has done all orders, in words: nothing, if each was counted once."""
    orders = [each for part in _read(counts, ORDERS).values() for each in part]
    passed = Counter(_text(each.key) for part in _read(counts, PASSED).values() for each in part)
    by_window = Counter(f"{_text(each.value)}@{each.timestamp_ms // WINDOW_MS * WINDOW_MS}" for each in orders)
    faults = [*_differences(PASSED, Counter(_text(each.key) for each in orders), passed)]
    faults += _differences(TOTALS, Counter(_text(each.value) for each in orders), _newest(counts, TOTALS))
    faults += _differences(WINDOWS, by_window, _newest(counts, WINDOWS))
    return tuple(faults)


def clear(cluster: Cluster, counts: Counts) -> None:
    """Take the application away that has been drained, so that another restore of it finds room."""
    clear_topics(cluster, counts)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_consumer_groups([counts.family])[counts.family].result()


def clear_topics(cluster: Cluster, counts: Counts) -> None:
    names = [name for name in cluster.admin.topics() if name.startswith(f"{counts.family}-")]
    cluster.admin.delete_topics(names)
    wait_until(lambda: not cluster.admin.topics().keys() & set(names))


@contextmanager
def _process(counts: Counts) -> Iterator[subprocess.Popen[str]]:
    """The application from its start on; its group has taken its partitions."""
    with tempfile.TemporaryDirectory(prefix="offsite-streams-", ignore_cleanup_errors=True) as folder:
        settings, said = Path(folder, "settings"), Path(folder, "said")
        settings.write_text("".join(f"{name}={value}\n" for name, value in _settings(counts, folder).items()))
        with said.open("w") as output:
            launcher, *arguments = _command()  # what a killed JVM leaves goes with the folder
            command = [launcher, f"-Djava.io.tmpdir={folder}", *arguments, str(settings), counts.family]
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, text=True, cwd=folder)
        try:
            wait_until(lambda: "RUNNING" in said.read_text() or process.poll() is not None, limit_s=_START_S)
            assert process.poll() is None, said.read_text()[-3000:]
            yield process
        finally:
            process.kill()
            process.wait()


def _settings(counts: Counts, folder: str) -> Mapping[str, object]:
    purge = {} if counts.purge_ms is None else {"repartition.purge.interval.ms": counts.purge_ms}
    return {
        "bootstrap.servers": counts.bootstrap,
        "application.id": counts.family,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": folder,
        "commit.interval.ms": 200,
        "num.stream.threads": 2,
        "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
        "producer.transaction.timeout.ms": 10_000,
        "consumer.session.timeout.ms": 6_000,
        "main.consumer.internal.leave.group.on.close": "true",
        **purge,
    }


@functools.cache
def _command() -> list[str]:
    """Raises `NoTool` where there is no compiler of Java, or a jar cannot be had."""
    streams = maven_jars(f"streams-{KAFKA_VERSION}", (_STREAMS,)) / _STREAMS.file_name
    jars = [streams, *(cache_folder() / each.file_name for each in kafka_jars())]
    jars += (spark_home() / "jars").glob("rocksdbjni-*.jar")
    return java_program(Path(__file__).with_name("Counts.java"), jars, [*LONG_RUN, "-Xmx256m"])


def _is_done(counts: Counts, name: str) -> bool:
    """Whether the group has committed all records that are there."""
    ends = {number: part[-1].offset + 1 for number, part in _read(counts, name).items() if part}
    consumer = Consumer({"bootstrap.servers": counts.bootstrap, "group.id": counts.family})
    asked = [TopicPartition(counts.topic(name), number) for number in ends]
    try:
        committed = {each.partition: each.offset for each in consumer.committed(asked, timeout=30)} if asked else {}
    finally:
        consumer.close()
    return all(committed[number] >= end for number, end in ends.items())


def _read(counts: Counts, name: str) -> Mapping[int, list[ReadRecord]]:
    return {number: list(part) for number, part in read_topic(counts.bootstrap, counts.topic(name)).items()}


def _newest(counts: Counts, name: str) -> Counter[str]:
    """The newest value of each key: a key is in one partition."""
    found = {_text(each.key): int(_text(each.value)) for part in _read(counts, name).values() for each in part}
    return Counter(found)


def _text(data: bytes | None) -> str:
    return (data or b"").decode()


def _differences(what: str, due: Counter[str], made: Counter[str]) -> Iterator[str]:
    wrong = {key: (due[key], made[key]) for key in due.keys() | made.keys() if due[key] != made[key]}
    lost = sum(max(0, expected - counted) for expected, counted in wrong.values())
    twice = sum(max(0, counted - expected) for expected, counted in wrong.values())
    if wrong:
        first = sorted(wrong.items())[:3]
        yield f"{what}: {lost} of {sum(due.values())} lost, {twice} too many, such as {first} (expected, counted)"
