"""Reads the facts about a source cluster that a backup needs: selected topics, their shapes, their bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from offsite.backup.copy_plan import PartitionBounds, SickPartition
from offsite.backup.schemas_topic import with_schemas
from offsite.groups.history import with_history
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.log_bounds import ListedBounds
from offsite.kafka.protocol.configs import TopicConfigs
from offsite.kafka.protocol.metadata import TopicMetadata
from offsite.log.range import TopicPartition
from offsite.model.cleanup_policy import is_compacted
from offsite.model.errors import KafkaNotAuthorized, LeaderUnavailable, NoSuchTopic, OffsiteError
from offsite.model.journal import warned
from offsite.model.names import PROTECTED_TOPICS
from offsite.model.options import MissingTopics
from offsite.model.selection import TopicSelection, drill_copies, no_topics
from offsite.repository.commit import TopicIncarnation, TopicShape

_GRANT = "grant the principal DESCRIBE_CONFIGS on the topic, or leave the topic out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The selected topics of a cluster at a moment. `ids`: topic ids by name. `missing`: topics named in full that do
    not exist. `sick`: partitions whose ends, or whose topic's settings, the cluster could not tell. A topic with
    unknown settings has an id but no shape."""

    cluster_id: str
    shapes: tuple[TopicShape, ...]
    bounds: tuple[PartitionBounds, ...]
    missing: tuple[str, ...]
    sick: tuple[SickPartition, ...] = ()
    ids: Mapping[str, str] = field(default_factory=dict)


def read_source(  # noqa: PLR0913  # all by keyword, most with a default
    admin: ClusterAdmin,
    selection: TopicSelection,
    *,
    missing_topics: MissingTopics,
    schemas_topic: str = "",
    group_history: bool = False,
    recorded: Iterable[TopicShape] = (),
) -> Source:
    """Read the selected topics of the cluster with their bounds. Raises `NoSuchTopic` when nothing matches, and for a
    missing topic unless missing topics only warn. A topic recorded earlier is gone, not misspelt, and does not raise.
    Raises `KafkaTooOld`, and the first partition's error when all partitions are sick.

    `schemas_topic` is taken along where it exists; with `group_history`, also the topic of groups. `recorded`: earlier
    shapes of topics.
    """
    cluster_id = admin.cluster().cluster_id
    admin.check_readable()
    listed = admin.topics()
    recorded = tuple(recorded)
    earlier = {shape.topic for shape in recorded}
    missing = selection.missing({*listed, *earlier})
    if missing and missing_topics is MissingTopics.FAIL:
        raise NoSuchTopic(
            f"topic {', '.join(missing)} does not exist on cluster {cluster_id}",
            hint="check the name, or continue without the topic: --missing-topics warn",
        )
    names = selection.select(
        listed,
        internal=frozenset(name for name, topic in listed.items() if topic.internal),
        hidden=drill_copies(listed),
    )
    if not names and not selection.select(earlier, internal=PROTECTED_TOPICS):
        raise no_topics(selection)
    names = with_schemas(names, schemas_topic, existing=listed, selection=selection)
    names = with_history(names, enabled=group_history, existing=listed)
    configs = _configs(admin, names)
    topics = [listed[name] for name in names if name in configs.configs or name in configs.denied]
    shapes = tuple(_shapes(topics, configs, schemas_topic, recorded))
    shaped = {shape.topic for shape in shapes}
    of_shaped = (topic for topic in topics if topic.name in shaped)
    log_bounds = admin.bounds(
        TopicPartition(topic=t.name, partition=p.partition) for t in of_shaped for p in t.partitions
    )
    failed = {**log_bounds.failed, **dict(_without_settings([t for t in topics if t.name not in shaped], configs))}
    if failed and not log_bounds.bounds:
        raise failed[min(failed)]
    return Source(
        cluster_id=cluster_id,
        shapes=shapes,
        bounds=_bounds(admin, log_bounds, shapes),
        missing=missing,
        sick=_sick(failed),
        ids={topic.name: _topic_id(topic) for topic in topics},
    )


def with_new_bounds(admin: ClusterAdmin, source: Source) -> Source:
    """`source` with current bounds of its partitions. Leaders may have changed, and an end is only valid together with
    its leader epoch."""
    log_bounds = admin.bounds(partition_bounds.topic_partition for partition_bounds in source.bounds)
    bounds = _bounds(admin, log_bounds, source.shapes)
    return replace(source, bounds=bounds, sick=(*source.sick, *_sick(log_bounds.failed)))


def _sick(failed: Mapping[TopicPartition, OffsiteError]) -> tuple[SickPartition, ...]:
    return tuple(
        SickPartition(topic=partition.topic, partition=partition.partition, error=error)
        for partition, error in sorted(failed.items())
    )


def _configs(admin: ClusterAdmin, names: Sequence[str]) -> TopicConfigs:
    """Read the settings of topics, leaving out topics deleted since they were listed. Raises `LeaderUnavailable` while
    brokers disagree whether a topic exists: the asked broker may not have heard of a new topic."""
    try:
        return admin.readable_topic_configs(names)
    except NoSuchTopic as error:
        listed = admin.topics()
        remaining = [name for name in names if name in listed]
        if len(remaining) == len(names):
            raise LeaderUnavailable(f"{error.message}, although the topic is listed", hint="run again") from error
        return _configs(admin, remaining)


def _shapes(
    topics: Iterable[TopicMetadata], configs: TopicConfigs, schemas_topic: str, recorded: Iterable[TopicShape]
) -> Iterator[TopicShape]:
    """Make the shapes of topics. Compaction is remembered: records that compaction removed before a change of policy do
    not come back."""
    before = {shape.incarnation: shape for shape in recorded}
    for topic in topics:
        last = before.get(TopicIncarnation(topic=topic.name, topic_id=_topic_id(topic)))
        was_compacted = last is not None and (last.was_compacted or is_compacted(dict(last.configs)))
        topic_configs = _own_configs(topic.name, configs, last)
        if topic_configs is not None:
            yield TopicShape(
                topic=topic.name,
                topic_id=_topic_id(topic),
                partitions=len(topic.partitions),
                replication_factor=topic.replication_factor,
                configs=tuple(sorted(topic_configs.items())),
                holds_schemas=topic.name == schemas_topic,
                was_compacted=was_compacted or is_compacted(topic_configs),
                configs_unread=topic.name in configs.denied,
            )


def _own_configs(topic: str, configs: TopicConfigs, last: TopicShape | None) -> Mapping[str, str] | None:
    """The settings of a topic, or the last readable settings where reading is now denied: the records are worth more
    than a setting that may have changed since. None where the settings were never readable."""
    if topic in configs.configs:
        return configs.configs[topic]
    warned("settings_unread", why=configs.denied[topic].message, topic=topic)
    return None if last is None else dict(last.configs)


def _without_settings(
    topics: Iterable[TopicMetadata], configs: TopicConfigs
) -> Iterator[tuple[TopicPartition, OffsiteError]]:
    """The partitions of topics with unknown settings, left out and named: restored with guessed settings, a topic might
    lose records to a wrong retention."""
    for topic in topics:
        error = KafkaNotAuthorized(configs.denied[topic.name].message, hint=_GRANT)
        for partition in topic.partitions:
            yield TopicPartition(topic=topic.name, partition=partition.partition), error


def _bounds(admin: ClusterAdmin, log_bounds: ListedBounds, shapes: Iterable[TopicShape]) -> tuple[PartitionBounds, ...]:
    sizes = admin.sizes_bytes(log_bounds.bounds)
    of_topic = {shape.topic: shape for shape in shapes}
    remote = {shape.topic for shape in shapes if dict(shape.configs).get("remote.storage.enable") == "true"}
    return tuple(
        PartitionBounds(
            topic=partition.topic,
            topic_id=of_topic[partition.topic].topic_id,
            partition=partition.partition,
            log_start=bounds.start,
            end=bounds.end,
            size_bytes=0 if partition.topic in remote else sizes.get(partition, 0),
            leader_epoch=bounds.leader_epoch,
            was_compacted=of_topic[partition.topic].was_compacted,
        )
        for partition, bounds in sorted(log_bounds.bounds.items())
    )


def _topic_id(topic: TopicMetadata) -> str:
    return "" if topic.topic_id is None else str(topic.topic_id)
