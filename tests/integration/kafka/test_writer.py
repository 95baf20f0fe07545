from __future__ import annotations

import pytest

from offsite.kafka.net.routing import Router
from offsite.kafka.writer import PartitionWriter
from offsite.log.batch import CRC_START
from offsite.log.range import TopicPartition
from offsite.model.errors import NoSuchTopic, ProtectedTopic, TargetMismatch
from tests.integration.kafka.cluster import Cluster, numbered
from tests.integration.kafka.proxy import proxied

PRODUCER_FIELDS_END = 57


class Copy:
    """Writes every batch of one topic into another, and notes the acknowledgements."""

    def __init__(self, cluster: Cluster, source: str, target: str) -> None:
        self.acks: list[tuple[int, int]] = []
        self._batches = cluster.read(cluster.whole(source))
        self._target = TopicPartition(topic=target, partition=0)

    def run(self, router: Router) -> None:
        with PartitionWriter(router, self._target, on_ack=lambda *ack: self.acks.append(ack)) as writer:
            for index, batch in enumerate(self._batches):
                assert writer.send(bytearray(batch.data)) == index
            writer.flush()

    def expected_acks(self) -> list[tuple[int, int]]:
        """As when the source has no gaps and the target was empty."""
        return [(index, batch.header.base_offset) for index, batch in enumerate(self._batches)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_go_back_in_with_every_byte_behind_the_header(cluster: Cluster, codec: str) -> None:
    source, target = cluster.make_topic(), cluster.make_topic()
    cluster.produce(source, numbered(3000), compression_type=codec, batch_num_messages=100, key=b"k")
    copy = Copy(cluster, source, target)
    copy.run(cluster.router)
    before, after = (cluster.read(cluster.whole(topic)) for topic in (source, target))
    assert copy.acks == copy.expected_acks()
    assert [b.data[PRODUCER_FIELDS_END:] for b in after] == [b.data[PRODUCER_FIELDS_END:] for b in before]
    assert [b.data[CRC_START : CRC_START + 22] for b in after] == [b.data[CRC_START : CRC_START + 22] for b in before]
    assert [b.records() for b in after] == [b.records() for b in before]


def test_acknowledgements_tell_where_batches_went_beside_another_writer(cluster: Cluster) -> None:
    source, target = cluster.make_topic(), cluster.make_topic()
    cluster.produce(source, numbered(50), batch_num_messages=1)
    (first, *_) = cluster.read(cluster.whole(source))
    acks: list[tuple[int, int]] = []
    with PartitionWriter(
        cluster.router, TopicPartition(topic=target, partition=0), on_ack=lambda *ack: acks.append(ack)
    ) as writer:
        for _ in range(3):
            writer.send(bytearray(first.data))
            writer.flush()
            cluster.produce(target, [b"from elsewhere"])
    assert acks == [(0, 0), (1, 2), (2, 4)]


@pytest.mark.parametrize("lost", [1, 2, 4])
def test_a_lost_acknowledgement_doubles_nothing(cluster: Cluster, lost: int) -> None:
    source, target = cluster.make_topic(), cluster.make_topic()
    cluster.produce(source, numbered(400), batch_num_messages=10)
    copy = Copy(cluster, source, target)
    with proxied(cluster.config.bootstrap[0]) as (proxy, pool):
        router = Router(cluster.config, pool=pool)
        router.leader(TopicPartition(topic=target, partition=0))
        flaky = Copy(cluster, source, target)
        with PartitionWriter(
            router, TopicPartition(topic=target, partition=0), on_ack=lambda *ack: flaky.acks.append(ack)
        ) as writer:
            for index, batch in enumerate(flaky._batches):
                if index % 10 == 4:
                    proxy.cut_answers(lost)
                writer.send(bytearray(batch.data))
            writer.flush()
        assert proxy.cut_count >= lost
    assert flaky.acks == copy.expected_acks()
    assert [record.value for record in cluster.records(target)] == numbered(400)


def test_a_batch_above_the_topics_limit_is_a_target_mismatch(cluster: Cluster) -> None:
    source, target = cluster.make_topic(), cluster.make_topic(max_message_bytes="2000")
    cluster.produce(source, [b"small", b"x" * 5000], batch_num_messages=1)
    copy = Copy(cluster, source, target)
    with pytest.raises(TargetMismatch, match="MESSAGE_TOO_LARGE"):
        copy.run(cluster.router)
    assert copy.acks == [(0, 0)]


def test_a_record_outside_the_topics_time_limits_is_a_target_mismatch(cluster: Cluster) -> None:
    source, target = cluster.make_topic(), cluster.make_topic(message_timestamp_before_max_ms="1")
    cluster.produce(source, [b"old by now"])
    with pytest.raises(TargetMismatch, match="INVALID_TIMESTAMP"):
        Copy(cluster, source, target).run(cluster.router)


def test_a_topic_that_is_not_there_is_said_so(cluster: Cluster) -> None:
    source = cluster.make_topic()
    cluster.produce(source, [b"x"])
    with pytest.raises(NoSuchTopic):
        Copy(cluster, source, "nowhere").run(cluster.router)


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"]
)
def test_kafkas_own_topics_are_never_written(cluster: Cluster, topic: str) -> None:
    with pytest.raises(ProtectedTopic):
        PartitionWriter(cluster.router, TopicPartition(topic=topic, partition=0), on_ack=lambda *_: None)
