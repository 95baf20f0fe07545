"""The cluster is gone, its backup is restored into another one, and applications continue as if nothing had happened:
same offsets, same transactions, same committed positions. Judged by an independent client on both clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from offsite.demo.data import BASE_MS, DemoMessage, compare_readings, read_topic
from offsite.kafka.writer import PartitionWriter
from offsite.log.codec import ZSTD
from offsite.log.range import TopicPartition as Partition
from offsite.log.records.batch_records import encode
from offsite.log.records.record import CREATE_TIME, Record
from offsite.sandbox import SandboxInfo
from tests.integration.e2e.command import succeed
from tests.integration.e2e.site import produce_to
from tests.integration.kafka.cluster import Cluster, wait_until

LOG_START = 500_000
COMMITTED, ABORTED = 80, 20
ERRORS_ONLY = 3
FILLER_RECORDS = 250_000
GROUPS = {"at-the-start": LOG_START, "in-the-middle": LOG_START + 1234, "at-the-end": LOG_START + 3000}


@pytest.fixture(scope="module")
def source(broker: SandboxInfo) -> dict[str, str]:
    """Two topics by what they are: `old` begins at half a million (`test_preserve` has one of five million), `sold`
    holds transactions, two producers at a time."""
    cluster = Cluster(broker.bootstrap)
    topics = {"old": cluster.make_topic(), "sold": cluster.make_topic()}
    write_old_log(cluster, topics["old"])
    write_transactions(cluster, topics["sold"])
    for group, offset in GROUPS.items():
        commit(broker.bootstrap, group, topics["old"], offset, metadata=f"instance of {group}")
    commit(broker.bootstrap, "seller", topics["sold"], read_topic(broker.bootstrap, topics["sold"])[0][77].offset)
    return topics


@pytest.fixture(scope="module")
def restored(
    broker: SandboxInfo, second_broker: SandboxInfo, source: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> str:
    """Bootstrap of the other cluster, after the restore."""
    repository: Path = tmp_path_factory.mktemp("applications") / "repository"
    succeed("init", repository)
    names = ["--repo", repository, "--backup", "b"]
    succeed("backup", "run", *names, "--bootstrap", broker.bootstrap, "--topics", ",".join(source.values()))
    target = [*names, "--bootstrap", second_broker.bootstrap]
    result = succeed("restore", "run", *target, "--offsets", "preserve", "--groups", "all", "--yes")
    assert result["verified"] is True
    return second_broker.bootstrap


@pytest.mark.parametrize("topic", ["old", "sold"])
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_every_visible_record_has_its_old_offset(
    broker: SandboxInfo, restored: str, source: dict[str, str], topic: str, isolation: str
) -> None:
    before = read_topic(broker.bootstrap, source[topic], isolation=isolation)
    after = read_topic(restored, source[topic], isolation=isolation)
    comparison = compare_readings(topic, before, after, offsets=True)
    assert comparison.identical, comparison.difference[:1000]
    assert len(before[0]) > COMMITTED


@pytest.mark.parametrize("topic", ["old", "sold"])
def test_the_log_starts_and_ends_where_it_did(
    broker: SandboxInfo, restored: str, source: dict[str, str], topic: str
) -> None:
    assert watermarks(restored, source[topic]) == watermarks(broker.bootstrap, source[topic])


@pytest.mark.parametrize(("group", "topic"), [*((group, "old") for group in GROUPS), ("seller", "sold")])
def test_a_consumer_of_each_group_continues_at_the_same_record(
    broker: SandboxInfo, restored: str, source: dict[str, str], group: str, topic: str
) -> None:
    before, after = (next_record(each, group, source[topic]) for each in (broker.bootstrap, restored))
    assert after == before
    assert (before is None) == (group == "at-the-end")


def test_metadata_of_commits_comes_back(restored: str, source: dict[str, str]) -> None:
    assert committed(restored, "in-the-middle", source["old"]).metadata == "instance of in-the-middle"


def write_old_log(cluster: Cluster, topic: str) -> None:
    """A log that retention has cut back to `LOG_START`, with 3000 records after it."""
    batch = encode([Record(n, BASE_MS, CREATE_TIME, None, b"") for n in range(FILLER_RECORDS)], codec=ZSTD)
    with PartitionWriter(cluster.router, Partition(topic=topic, partition=0), on_ack=lambda *_: None) as writer:
        for _ in range(LOG_START // FILLER_RECORDS):
            writer.send(bytearray(batch))
        writer.flush()
    partition = Partition(topic=topic, partition=0)
    assert cluster.admin.delete_records({partition: LOG_START}) == {partition: LOG_START}
    produce_to(cluster.bootstrap, topic, numbered(3000))


def write_transactions(cluster: Cluster, topic: str) -> None:
    """Pairs of transactions that lie inside each other, and plain records between them."""
    producers = [transactional(cluster.bootstrap, f"{topic}-{n}") for n in range(2)]
    for pair in range((COMMITTED + ABORTED) // 2):
        for producer in producers:
            producer.begin_transaction()
        for message in range(4):
            producers[message % 2].produce(topic, b"%d/%d" % (pair, message), key=b"k", partition=0)
            producers[message % 2].flush()
        for number, producer in enumerate(producers):
            end = cluster.end(topic)
            if 2 * pair + number < ABORTED:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
            wait_until(lambda end=end: cluster.end(topic) == end + 1)
        if pair % 10 == 0:
            produce_to(cluster.bootstrap, topic, numbered(3))


def transactional(bootstrap: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": ERRORS_ONLY})
    producer.init_transactions()
    return producer


def numbered(count: int) -> Iterator[DemoMessage]:
    for n in range(count):
        yield DemoMessage(key=b"%d" % n, value=b"value %d" % n, timestamp_ms=BASE_MS + n)


def consumer_of(bootstrap: str, group: str) -> Consumer:
    settings = {"enable.auto.commit": False, "auto.offset.reset": "error", "isolation.level": "read_committed"}
    at_the_end = {"enable.partition.eof": True, "fetch.wait.max.ms": 10}
    return Consumer({"bootstrap.servers": bootstrap, "group.id": group, **settings, **at_the_end})


def commit(bootstrap: str, group: str, topic: str, offset: int, *, metadata: str = "") -> None:
    consumer = consumer_of(bootstrap, group)
    position = TopicPartition(topic, 0, offset, metadata)
    done = consumer.commit(offsets=[position], asynchronous=False)
    assert done
    assert done[0].error is None
    consumer.close()


def committed(bootstrap: str, group: str, topic: str) -> TopicPartition:
    consumer = consumer_of(bootstrap, group)
    (position,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return position


def next_record(bootstrap: str, group: str, topic: str) -> tuple[int | None, bytes | None] | None:
    """What a member that joins the group now is given first; None at the end of the log."""
    consumer = consumer_of(bootstrap, group)
    try:
        consumer.subscribe([topic])
        message = consumer.poll(60)
        assert message is not None, "no answer"
        error = message.error()
        if error is None:
            return message.offset(), message.value()
        assert error.name() == "_PARTITION_EOF", KafkaException(error)
        return None
    finally:
        consumer.close()


def watermarks(bootstrap: str, topic: str) -> tuple[int, int]:
    consumer = consumer_of(bootstrap, "watermarks")
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    finally:
        consumer.close()
