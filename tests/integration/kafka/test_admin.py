from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.net.connection import Connection
from offsite.kafka.protocol.broker_errors import INVALID_CONFIG
from offsite.kafka.protocol.logs import READ_COMMITTED
from offsite.kafka.protocol.metadata import NewTopic
from offsite.log.range import TopicPartition
from offsite.model.errors import BadOption, KafkaUnreachable, NoSuchTopic
from tests.integration.kafka.cluster import Cluster, numbered


def test_the_cluster_tells_its_id_and_brokers(cluster: Cluster) -> None:
    found = cluster.admin.cluster()
    assert found.cluster_id
    assert [broker.address for broker in found.brokers.values()] == list(cluster.config.bootstrap)
    assert not found.topics


def test_topics_are_described_with_id_partitions_and_settings(cluster: Cluster) -> None:
    name = cluster.make_topic(partitions=3, cleanup_policy="compact,delete", retention_ms="12345")
    topic = cluster.admin.topics([name])[name]
    assert topic.topic_id is not None
    assert (len(topic.partitions), topic.replication_factor, topic.internal) == (3, 1, False)
    cluster.assert_configs(name, {"cleanup.policy": "compact,delete", "retention.ms": "12345"})
    assert name in cluster.admin.topics()


def test_a_topic_made_again_has_another_id(cluster: Cluster) -> None:
    name = cluster.make_topic()
    first = cluster.admin.topics([name])[name].topic_id
    cluster.admin.delete_topics([name])
    cluster.admin.create_topics([NewTopic(name=name, partitions=1)])
    assert cluster.admin.topics([name])[name].topic_id != first


def test_offsets_and_sizes_of_many_partitions_come_at_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [cluster.make_topic(partitions=50) for _ in range(4)]
    cluster.produce(names[0], numbered(10))
    partitions = [TopicPartition(topic=name, partition=number) for name in names for number in range(50)]
    cluster.admin.end_offsets(partitions)  # from now on every leader is known, and knows it
    sent: list[int] = []
    send = Connection.send
    monkeypatch.setattr(
        Connection, "send", lambda self, api, *rest, **more: (sent.append(api), send(self, api, *rest, **more))
    )
    ends, starts = cluster.admin.end_offsets(partitions), cluster.admin.start_offsets(partitions)
    sizes = cluster.admin.sizes_bytes(partitions)
    assert (ends[partitions[0]], starts[partitions[0]]) == (10, 0)
    assert sizes[partitions[0]] > 1000
    assert set(ends) == set(starts) == set(sizes) == set(partitions)
    assert len(sent) == 3, "one request each, as there is one broker"


def test_the_end_for_read_committed_is_that_of_the_log_without_open_transactions(cluster: Cluster) -> None:
    name = cluster.make_topic()
    cluster.produce(name, numbered(3))
    key = TopicPartition(topic=name, partition=0)
    assert cluster.admin.end_offsets([key], isolation=READ_COMMITTED) == {key: 3}


def test_bad_wishes_are_refused_in_the_brokers_words(cluster: Cluster) -> None:
    name = cluster.make_topic()
    with pytest.raises(BadOption, match="already exists"):
        cluster.admin.create_topics([NewTopic(name=name, partitions=1)])
    with pytest.raises(BadOption, match="Unknown topic config"):
        cluster.admin.create_topics([NewTopic(name="other", partitions=1, configs={"no.such": "1"})])
    with pytest.raises(BadOption, match="INVALID_REPLICATION_FACTOR"):
        cluster.admin.create_topics([NewTopic(name="other", partitions=1, replication_factor=3)], validate_only=True)


def test_what_is_not_there_is_said_so(cluster: Cluster) -> None:
    """Each is asked for again for a while, so all are at once."""
    name = cluster.make_topic()
    questions: dict[str, Callable[[ClusterAdmin], object]] = {
        "topics": lambda admin: admin.topics(["nowhere"]),
        "configs": lambda admin: admin.topic_configs(["nowhere"]),
        "delete": lambda admin: admin.delete_topics(["nowhere"]),
        "ends": lambda admin: admin.end_offsets([TopicPartition(topic="nowhere", partition=0)]),
        "partition": lambda admin: admin.end_offsets([TopicPartition(topic=name, partition=7)]),
    }
    with ThreadPoolExecutor(max_workers=len(questions)) as pool:
        asked = {what: pool.submit(ask, Cluster(cluster.bootstrap).admin) for what, ask in questions.items()}
    found = {what: future.exception() for what, future in asked.items()}
    assert {type(error) for error in found.values()} == {NoSuchTopic}
    told = {what: "no partition 7" if what == "partition" else "nowhere" for what in questions}
    assert {what for what, words in told.items() if words not in str(found[what])} == set()


def test_a_cluster_that_is_not_there_is_said_so_at_once() -> None:
    with pytest.raises(KafkaUnreachable, match="cannot connect"):
        Cluster("127.0.0.1:1").admin.cluster()
    with pytest.raises(KafkaUnreachable, match="no such host"):
        Cluster("no-such-host.invalid:9092").admin.cluster()


def test_more_partitions_than_a_controller_takes_at_once_are_asked_for_in_parts(cluster: Cluster) -> None:
    """It refuses all of a request for more than 10,000."""
    topics = [NewTopic(name=f"many-{number}", partitions=11) for number in range(1000)]
    assert cluster.admin.refused_topics(topics) == {}
    cluster.admin.create_topics(topics, validate_only=True)
    refused = cluster.admin.refused_topics([*topics, NewTopic(name="bad", partitions=1, configs={"no.such": "1"})])
    assert [(name, outcome.error_code) for name, outcome in refused.items()] == [("bad", INVALID_CONFIG)]
    assert "many-0" not in cluster.admin.topics()
