"""The source's retention of its topics, according to the cluster itself: including defaults, unknown to commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from offsite.kafka.protocol.configs import TopicConfigs
from offsite.kafka.protocol.metadata import ClusterMetadata, TopicMetadata
from offsite.model.cleanup_policy import Retention
from offsite.model.errors import OtherCluster
from offsite.repository.backup import Backup
from offsite.repository.state import BackupState


class TopicSettingsSource(Protocol):
    """The description of a cluster and its topics."""

    def cluster(self) -> ClusterMetadata: ...

    def topics(self) -> Mapping[str, TopicMetadata]: ...

    def readable_topic_configs(self, names: Iterable[str], *, with_defaults: bool = False) -> TopicConfigs: ...


def read_cluster_retention(cluster: TopicSettingsSource, backup: Backup, state: BackupState) -> Mapping[str, Retention]:
    """The retention of the topics of `state` still present in the cluster, by name. Topics without the right to
    describe are left out. Raises `OtherCluster` if the cluster is not the source of `backup`, and `KafkaUnavailable`.
    """
    expected, actual = backup.descriptor.cluster_id, cluster.cluster().cluster_id
    if actual != expected:
        raise OtherCluster(
            f"backup {state.backup} was made on cluster {expected}, but this cluster is {actual}",
            hint="check --bootstrap",
        )
    topics = cluster.topics()
    same = [
        shape.topic
        for shape in state.latest_shapes().values()
        if shape.topic in topics and str(topics[shape.topic].topic_id or "") == shape.topic_id
    ]
    if not same:
        return {}
    configs = cluster.readable_topic_configs(same, with_defaults=True).configs
    return {topic: Retention.of(settings) for topic, settings in configs.items()}
