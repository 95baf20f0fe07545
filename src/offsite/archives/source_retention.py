"""Finds how long topics of an archive keep records at the source: from the cluster, or as recorded by the archive.

Only a positive answer of the cluster permits a deletion: the topic exists, has the id recorded in the archive, may be
described, and the leaders answer. Everything else is kept, with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from offsite.archives.mirror import MirrorRule, TopicSettings
from offsite.kafka.log_bounds import ListedBounds
from offsite.kafka.presence import PresenceState
from offsite.kafka.protocol.configs import TopicConfigs
from offsite.kafka.protocol.metadata import TopicMetadata
from offsite.log.range import TopicPartition
from offsite.model.cleanup_policy import KeepLimits, Retention

_UNVOUCHED = MirrorRule(
    settings=TopicSettings(), keep_reason="no digest confirms the settings that the archive recorded"
)
_ABSENT = {
    PresenceState.DELETED: "the cluster has no topic of that name now, so its retention is unknown",
    PresenceState.DENIED: "the principal may not describe the topic",
    PresenceState.UNCLEAR: "the brokers do not agree whether the topic exists",
}


class MirroredCluster(Protocol):
    """Answers of a cluster about topics."""

    def presence(self, names: Collection[str]) -> Mapping[str, PresenceState]: ...

    def topics(self, names: Collection[str] | None = None) -> Mapping[str, TopicMetadata]: ...

    def readable_topic_configs(self, names: Iterable[str], *, with_defaults: bool = False) -> TopicConfigs: ...

    def bounds(self, partitions: Iterable[TopicPartition]) -> ListedBounds: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSource:
    """The source of retention settings: the `cluster`, or the archive alone if `cluster` is None."""

    cluster: MirroredCluster | None = None

    def rules(
        self, settings: Mapping[str, TopicSettings], partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, MirrorRule]:
        """Return the rule of every partition in an archive. Raises `KafkaUnavailable` if no broker answers."""
        vouched = {partition: settings[partition.topic] for partition in partitions if partition.topic in settings}
        if self.cluster is None:
            rules = {partition: _rule(topic, topic.configs) for partition, topic in vouched.items()}
        else:
            rules = _cluster_rules(self.cluster, vouched)
        return {partition: rules.get(partition, _UNVOUCHED) for partition in partitions}


def _cluster_rules(
    cluster: MirroredCluster, settings: Mapping[TopicPartition, TopicSettings]
) -> dict[TopicPartition, MirrorRule]:
    presence = cluster.presence({partition.topic for partition in settings})
    present = sorted(topic for topic, is_there in presence.items() if is_there is PresenceState.THERE)
    metadata = cluster.topics(present) if present else {}
    doubts = {partition: _doubt(topic, metadata.get(partition.topic)) for partition, topic in settings.items()}
    same = [partition for partition, doubt in doubts.items() if not doubt]
    configs = cluster.readable_topic_configs({partition.topic for partition in same}, with_defaults=True).configs
    bounds = cluster.bounds(same)
    rules = dict[TopicPartition, MirrorRule]()
    for partition, topic in settings.items():
        doubt = _ABSENT.get(presence[partition.topic]) or doubts[partition]
        if not doubt and partition.topic not in configs:
            doubt = "the principal may not read the settings of the topic"
        if not doubt and partition in bounds.failed:
            doubt = f"its leader does not answer: {bounds.failed[partition].message}"
        if doubt:
            rules[partition] = MirrorRule(settings=topic, keep_reason=doubt)
        else:
            rule = _rule(topic, configs[partition.topic])
            rules[partition] = replace(rule, log_start=bounds.bounds[partition].start)
    return rules


def _rule(settings: TopicSettings, configs: Mapping[str, str]) -> MirrorRule:
    retention = Retention.of(configs)
    if not retention.deletes:
        return MirrorRule(
            settings=settings,
            keep_reason="its topic is compacted: the brokers delete records by key, not by age or size",
        )
    if retention.retention_ms is None:
        why = "the retention of its topic is a broker default: pass --bootstrap to read it from the cluster"
        return MirrorRule(settings=settings, keep_reason=why)
    return MirrorRule(settings=settings, now=KeepLimits.of(retention))


def _doubt(settings: TopicSettings, topic: TopicMetadata | None) -> str:
    """Return why the topic on the cluster may differ from the archived topic; empty for the same topic."""
    if topic is None:
        return "the cluster returned no metadata of the topic"
    if not settings.topic_id:
        return "the archive did not record the id of the topic"
    if topic.topic_id is None:
        return "the cluster does not give the id of the topic"
    return (
        ""
        if settings.topic_id == str(topic.topic_id)
        else "the topic on the cluster has another id: it is another topic of the same name"
    )
