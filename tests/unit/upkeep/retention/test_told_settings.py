"""What the source says of how long it keeps its topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from offsite.kafka.protocol.configs import TopicConfigs
from offsite.kafka.protocol.metadata import ClusterMetadata, TopicMetadata
from offsite.model.cleanup_policy import Retention
from offsite.model.errors import OtherCluster
from offsite.upkeep.retention.mirror import read_cluster_retention
from tests.worlds.retention.retained import Retained

TOPIC_ID = UUID("12345678123456781234567812345678")


class Cluster:
    """One with topic `a`; of others it lets nobody read the settings."""

    def __init__(self, topic_id: UUID = TOPIC_ID, cluster_id: str = "cluster") -> None:
        self._topic_id, self._cluster_id = topic_id, cluster_id

    def cluster(self) -> ClusterMetadata:
        return ClusterMetadata(cluster_id=self._cluster_id, controller_id=1, brokers={}, topics={})

    def topics(self) -> Mapping[str, TopicMetadata]:
        made = TopicMetadata(name="a", topic_id=self._topic_id, internal=False, error_code=0, partitions=())
        return {"a": made}

    def readable_topic_configs(self, names: Iterable[str], *, with_defaults: bool = False) -> TopicConfigs:
        assert with_defaults
        return TopicConfigs(configs={name: {"retention.ms": "5"} for name in names}, denied={})


@pytest.fixture
def made() -> Retained:
    made = Retained(retention_ms=None)
    for topic in "ab":
        made.make(topic)
    made.shapes["a"] = replace(made.shapes["a"], topic_id=str(TOPIC_ID))
    made.logs = {each: log for each, log in made.logs.items() if each.topic == "b"}
    made.commit()
    return made


def test_the_topics_that_are_still_the_same_are_told(made: Retained) -> None:
    found = read_cluster_retention(Cluster(), made.backup, made.backup.state())
    assert found == {"a": Retention(cleanup_policy="delete", retention_ms=5, retention_bytes=None)}


def test_of_a_topic_that_was_made_anew_since_nothing_is_told(made: Retained) -> None:
    assert read_cluster_retention(Cluster(topic_id=UUID(int=1)), made.backup, made.backup.state()) == {}


def test_another_cluster_is_not_asked(made: Retained) -> None:
    with pytest.raises(OtherCluster):
        read_cluster_retention(Cluster(cluster_id="other"), made.backup, made.backup.state())
