"""Reads and writes go on over a broker that is killed and started again."""

from __future__ import annotations

import threading

import pytest

from offsite.kafka.net.routing import Router
from offsite.kafka.reader import PartitionReader
from offsite.kafka.writer import PartitionWriter
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record
from offsite.sandbox import Sandbox
from tests.conftest import StartSandbox
from tests.integration.kafka.cluster import Batch, Cluster, batches_of, numbered, wait_until
from tests.integration.kafka.proxy import proxied

VALUES = numbered(6000, 2000)


def killed_and_started_again(sandbox: Sandbox) -> threading.Thread:
    """Dead on return; starting in the background."""
    sandbox.kill()
    thread = threading.Thread(target=lambda: sandbox.start(owned=True))
    thread.start()
    return thread


def assert_all(records: list[Record]) -> None:
    assert [int((record.value or b"")[:9]) for record in records] == list(range(len(VALUES)))
    assert all(record.value == value for record, value in zip(records, VALUES, strict=True))


def test_a_read_goes_on_where_it_was_when_the_broker_died(start_sandbox: StartSandbox) -> None:
    sandbox, info = start_sandbox()
    cluster = Cluster(info.bootstrap)
    topic = cluster.make_topic()
    cluster.produce(topic, VALUES, batch_size=16_000)
    seen: list[Batch] = []
    items = batches_of(PartitionReader(cluster.router).read(cluster.whole(topic)))
    seen += [next(items) for _ in range(3)]
    starting = killed_and_started_again(sandbox)
    seen += items
    starting.join()
    assert_all([record for batch in seen for record in batch.records()])


def test_a_write_goes_on_where_it_was_when_the_broker_died(start_sandbox: StartSandbox) -> None:
    sandbox, info = start_sandbox()
    cluster = Cluster(info.bootstrap)
    source, target = cluster.make_topic(), cluster.make_topic()
    cluster.produce(source, VALUES, batch_size=16_000)
    batches = cluster.read(cluster.whole(source))
    offsets: list[int] = []
    partition = TopicPartition(topic=target, partition=0)
    with PartitionWriter(cluster.router, partition, on_ack=lambda _, offset: offsets.append(offset)) as writer:
        for batch in batches[:-20]:
            writer.send(bytearray(batch.data))
        starting = killed_and_started_again(sandbox)
        for batch in batches[-20:]:
            writer.send(bytearray(batch.data))
        writer.flush()
    starting.join()
    assert offsets == [batch.header.base_offset for batch in batches]
    assert_all(cluster.records(target))


@pytest.mark.parametrize(
    "landing", [pytest.param(1, marks=pytest.mark.soak), 2, pytest.param(4, marks=pytest.mark.soak)]
)
def test_what_a_restarted_broker_forgot_to_have_taken_is_found_in_its_log(
    start_sandbox: StartSandbox, landing: int
) -> None:
    sandbox, info = start_sandbox()
    cluster = Cluster(info.bootstrap)
    source, target = cluster.make_topic(), cluster.make_topic()
    cluster.produce(source, numbered(20), batch_num_messages=1)
    batches = cluster.read(cluster.whole(source))
    acks: list[tuple[int, int]] = []
    partition = TopicPartition(topic=target, partition=0)
    with proxied(cluster.config.bootstrap[0]) as (proxy, pool):
        router = Router(cluster.config, pool=pool)
        with PartitionWriter(router, partition, on_ack=lambda *ack: acks.append(ack)) as writer:
            for batch in batches[:10]:
                writer.send(bytearray(batch.data))
            writer.flush()
            proxy.swallow_answers(True)
            for batch in batches[10 : 10 + landing]:
                writer.send(bytearray(batch.data))
            wait_until(lambda: cluster.end(target) == 10 + landing)
            sandbox.stop()
            sandbox.start(owned=True)
            proxy.swallow_answers(False)
            for batch in batches[10 + landing :]:
                writer.send(bytearray(batch.data))
            writer.flush()
    assert acks == [(number, number) for number in range(20)]
    assert [record.value for record in cluster.records(target)] == numbered(20)
