"""The bars of the metastore's backup: how long it takes, and what kill -9 leaves."""

from __future__ import annotations

import json
import os
import queue
import random
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings

from offsite.kafka.protocol.metadata import NewTopic
from offsite.log.records.record import Record
from offsite.metastore.backup_file import load
from offsite.sandbox import SandboxInfo
from tests.integration.e2e.command import start, started
from tests.integration.kafka.cluster import Cluster, wait_until
from tests.integration.metastore.ksql import Ksql, create_stream
from tests.integration.metastore.test_metastore import Node, delete
from tests.unit.metastore.commands import commands

COMMANDS, SIZE = 10_000, 4_000
INITIAL_S, COMPARE_S, DURABLE_S = 5.0, 3.0, 0.050
KILLS = int(os.environ.get("OFFSITE_KILLS", "40"))
EXAMPLES = int(os.environ.get("OFFSITE_EXAMPLES", "100"))


@pytest.fixture
def node(broker: SandboxInfo, tmp_path: Path) -> Node:
    node = Node(Ksql(Cluster(broker.bootstrap)), tmp_path / "backups")
    node.ksql.make_topic()
    return node


@pytest.mark.soak
def test_ten_thousand_commands_are_in_the_file_and_compared_in_time(node: Node) -> None:
    node.ksql.write([create_stream(number, size=SIZE) for number in range(COMMANDS)], at_once=True)
    first = started("metastore", "backup", *node.place, "-o", "json")
    assert first.result["appended"] == COMMANDS, first.stderr
    assert first.took_s < INITIAL_S
    again = started("metastore", "backup", *node.place, "-o", "json")
    assert (again.result["commands"], again.result["appended"]) == (COMMANDS, 0)
    assert again.took_s < COMPARE_S
    print(f"initial {first.took_s:.2f} s, compare {again.took_s:.2f} s")  # noqa: T201


@pytest.mark.soak
def test_a_command_is_durable_soon_after_its_commit(node: Node) -> None:
    node.ksql.write([create_stream(0)])
    producer = Producer({"bootstrap.servers": node.ksql.cluster.bootstrap, "transactional.id": "steady"})
    producer.init_transactions(30)
    took_s = []
    with node.following():
        wait_until(lambda: node.location.is_dir() and bool(node.files) and load(node.files[0]).entries == 1)
        for number in range(1, 101):
            key, value = create_stream(number, size=SIZE)
            size_bytes = node.files[0].stat().st_size
            producer.begin_transaction()
            producer.produce(node.ksql.topic, value, key=key)
            producer.commit_transaction(30)
            began_s = time.monotonic()
            while node.files[0].stat().st_size == size_bytes:
                assert time.monotonic() - began_s < 1
                time.sleep(0.0005)
            took_s.append(time.monotonic() - began_s)
            time.sleep(random.uniform(0, 0.05))
        wait_until(lambda: load(node.files[0]).entries == 101)
    took_s.sort()
    print(f"median {statistics.median(took_s) * 1000:.1f} ms, 99th {took_s[98] * 1000:.1f} ms")  # noqa: T201
    assert took_s[98] < DURABLE_S


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_killed_backup_ends_at_a_whole_line_and_holds_what_it_told(node: Node) -> None:
    written = 0
    with writing(node) as counted:
        for _ in range(KILLS):
            with node.following() as process:
                told = told_commands(process)
                wait_until(lambda: told() > written)  # noqa: B023
                time.sleep(random.uniform(0, 0.3))
                process.kill()
                process.wait()
                written = told()
            (file,) = node.files
            read = load(file)
            whole = [each.record for each in read.commands]
            assert len(whole) >= written
            assert {each.line for each in read.problems} <= {0}, read.problems
            assert [(each.key, each.value) for each in whole] == node.ksql.written()[: len(whole)]
    assert started("metastore", "backup", *node.place, "-o", "json").exit_code == 0
    (file,) = node.files
    assert not load(file).problems
    assert [each.record for each in load(file).commands] == node.ksql.records()
    assert len(node.ksql.records()) == counted()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_restore_that_is_killed_anywhere_is_done_again(node: Node) -> None:
    node.ksql.write([create_stream(number) for number in range(60)])
    before, file = node.ksql.records(), node.back_up()["file"]
    delete(node)
    node.ksql.make_topic()
    node.ksql.write([create_stream(1000)])
    for _ in range(KILLS // 4):
        process = start("metastore", "restore", file, *node.ends, "--yes", "-o", "json")
        time.sleep(random.uniform(0.3, 1.5))
        process.kill()
        process.communicate()
    done = started("metastore", "restore", file, *node.ends, "--yes", "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert node.ksql.records() == before
    copies = sorted(node.location.glob("*.replaced"))
    assert [each.record.value for each in load(copies[0]).commands] == [create_stream(1000)[1]]


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_any_commands_come_back_and_make_the_same_file_again(broker: SandboxInfo, tmp_path: Path) -> None:
    cluster = Cluster(broker.bootstrap)

    @given(commands())
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    def comes_back(given_commands: list[Record]) -> None:
        if not given_commands:
            return
        node = Node(Ksql(cluster), tmp_path / str(time.monotonic_ns()))
        cluster.admin.create_topics([NewTopic(name=node.ksql.topic, partitions=1)])
        node.ksql.write([(each.key, each.value) for each in given_commands])
        before, file = node.ksql.records(), Path(node.back_up()["file"])
        whole = file.read_bytes()
        delete(node)
        done = node.run("restore", file, *node.ends, "--yes")
        assert done.exit_code == 0, done.stderr
        assert node.ksql.records() == before
        file.rename(file.with_suffix(".old"))
        second = Path(node.back_up()["file"])
        assert second.read_bytes() == whole

    comes_back()


@contextmanager
def writing(node: Node) -> Iterator[Callable[[], int]]:
    """A thread that writes commands one after the other. The value tells how many it has written."""
    over, numbers = threading.Event(), iter(range(1_000_000))
    written = [0]

    def write() -> None:
        producer = Producer({"bootstrap.servers": node.ksql.cluster.bootstrap, "transactional.id": node.ksql.service})
        producer.init_transactions(30)
        while not over.is_set():
            some = random.randint(1, 3)
            producer.begin_transaction()
            for _ in range(some):
                key, value = create_stream(next(numbers), size=random.choice([0, 100, SIZE]))
                producer.produce(node.ksql.topic, value, key=key)
            producer.commit_transaction(30)
            written[0] += some
            over.wait(0.02)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield lambda: written[0]
    finally:
        over.set()
        writer.join()


def told_commands(process: subprocess.Popen[str]) -> Callable[[], int]:
    """Reads what the process tells. The value tells of how many commands it said that they are in the file."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    assert process.stdout is not None
    stream, newest = process.stdout, [0]

    def read() -> None:
        with suppress(ValueError):
            for line in stream:
                lines.put(line)

    threading.Thread(target=read, daemon=True).start()

    def told() -> int:
        while not lines.empty():
            with suppress(json.JSONDecodeError):
                newest[0] = json.loads(lines.get())["commands"]
        return newest[0]

    return told
