"""What real clients wrote is read exactly, and what we encode is taken in by a real broker and read by real clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from offsite.kafka.config import KafkaConfig, parse_bootstrap
from offsite.kafka.net.routing import Router
from offsite.kafka.reader import PartitionReader
from offsite.kafka.writer import PartitionWriter
from offsite.log.batch import BatchHeader, scan
from offsite.log.codec import CODEC_NAMES
from offsite.log.committed_view import CommittedView
from offsite.log.range import Chunk, LogRange
from offsite.log.range import TopicPartition as Partition
from offsite.log.records.batch_records import decode, encode
from offsite.log.records.record import Record
from offsite.log.transactions import TransactionIndexer
from offsite.sandbox import SandboxInfo
from offsite.sandbox.jars import PRODUCER_PERFORMANCE, run_tool

ODD_NAME = b"\xff\xfe".decode("utf-8", "surrogateescape")
WAIT_S = 30.0


def make_topic(broker: SandboxInfo, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})  # its futures die with it
    (made,) = admin.create_topics([NewTopic(topic, 1, 1)]).values()
    made.result(WAIT_S)
    return topic


def router(broker: SandboxInfo) -> Router:
    return Router(KafkaConfig(bootstrap=parse_bootstrap(broker.bootstrap)))


def read_batches(broker: SandboxInfo, topic: str) -> Iterator[tuple[bytes, BatchHeader]]:
    """Every batch up to the high watermark."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)
    consumer.close()
    whole = LogRange(topic=topic, partition=0, start=0, end=end)
    for chunk in PartitionReader(router(broker)).read(whole):
        assert isinstance(chunk, Chunk)
        for header in chunk.batches:
            yield bytes(header.view(chunk.data)), header


def read_records(broker: SandboxInfo, topic: str) -> list[Record]:
    batches = read_batches(broker, topic)
    return [record for batch, header in batches if not header.is_control for record in decode(batch, header)]


def consume(broker: SandboxInfo, topic: str, *, isolation: str = "read_uncommitted") -> list[Record]:
    """What librdkafka makes of the topic, CRC checked."""
    settings = {
        "group.id": "reader",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,
        "check.crcs": True,
    }
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    records = []
    while True:
        message = consumer.poll(WAIT_S)
        assert message is not None  # an empty value makes a message falsy
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            break
        kind, timestamp_ms = message.timestamp()
        headers = tuple(message.headers() or ())
        records.append(Record(message.offset(), timestamp_ms, kind - 1, message.key(), message.value(), headers))
    consumer.close()
    return records


def write(broker: SandboxInfo, topic: str, batches: list[bytearray]) -> None:
    acks: list[int] = []
    partition = Partition(topic=topic, partition=0)
    with PartitionWriter(router(broker), partition, on_ack=lambda index, _: acks.append(index)) as writer:
        for batch in batches:
            writer.send(batch)
        writer.flush()
    assert len(acks) == len(batches)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_records_of_librdkafka_are_those_its_consumer_sees(broker: SandboxInfo, codec: str) -> None:
    topic = make_topic(broker, f"log-rd-{codec}")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 5})
    for n in range(3000):
        headers = [("h", None), ("h", b"x"), ("é", b"")] if n % 5 == 0 else None
        producer.produce(topic, b"value" * (n % 30), None if n % 3 else b"%d" % n, headers=headers, timestamp=5000 - n)
    producer.flush(WAIT_S)
    found = read_records(broker, topic)
    assert len(found) == 3000
    assert found == consume(broker, topic)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_records_of_the_java_producer_are_those_a_consumer_sees(broker: SandboxInfo, codec: str) -> None:
    topic = make_topic(broker, f"log-java-{codec}")
    size = ["--num-records", "3000", "--record-size", "200", "--throughput", "-1"]
    settings = ["--producer-props", f"bootstrap.servers={broker.bootstrap}", f"compression.type={codec}"]
    run_tool(PRODUCER_PERFORMANCE, ["--topic", topic, *size, *settings])
    found = read_records(broker, topic)
    assert len(found) == 3000
    assert found == consume(broker, topic)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_broker_takes_in_what_we_encode(broker: SandboxInfo, codec: str) -> None:
    topic = make_topic(broker, f"log-own-{codec}")
    many = [Record(n, 9000 - n, 0, b"key", b"value" * (n % 200), (("h", None),)) for n in range(1000)]
    whole = encode(many, codec=CODEC_NAMES.index(codec))
    write(broker, topic, [bytearray(whole)])
    found = read_records(broker, topic)
    assert [record[1:] for record in found] == [record[1:] for record in many]
    assert found == consume(broker, topic)


def test_a_broker_keeps_header_names_that_are_not_utf8_and_missing_times(broker: SandboxInfo) -> None:
    """Read back by us alone: librdkafka's Python client cannot hold such a name."""
    topic = make_topic(broker, "log-odd")
    odd = [Record(0, -1, 0, None, b"", ((ODD_NAME, b"\0"),)), Record(1, 7, 0, b"", None)]
    write(broker, topic, [encode(odd, codec=codec) for codec in range(len(CODEC_NAMES))])
    assert [record[1:] for record in read_records(broker, topic)] == [record[1:] for record in odd * 5]


def test_the_committed_view_is_what_a_read_committed_consumer_sees(broker: SandboxInfo) -> None:
    topic = make_topic(broker, "log-transactions")
    settings = {"bootstrap.servers": broker.bootstrap, "linger.ms": 0}
    producers = [Producer({**settings, "transactional.id": f"log-{n}"}) for n in range(2)]
    for producer in producers:
        producer.init_transactions(WAIT_S)
    for round_nr in range(6):
        for producer in producers:
            producer.begin_transaction()
        for n in range(4):
            producers[n % 2].produce(topic, b"%d-%d" % (round_nr, n))
            producers[n % 2].flush(WAIT_S)
        for n, producer in enumerate(producers):
            end = producer.commit_transaction if (round_nr + n) % 3 else producer.abort_transaction
            end(WAIT_S)
    batches = list(read_batches(broker, topic))
    indexer = TransactionIndexer()
    for batch, _ in batches:
        indexer.feed(batch, scan(batch))
    view = CommittedView([indexer.markers], end_offset=batches[-1][1].next_offset)
    visible = [record for batch, header in batches if view.is_visible(header) for record in decode(batch, header)]
    assert len(indexer.markers) == 12
    assert visible == consume(broker, topic, isolation="read_committed")
    assert len(visible) == 16
