"""What a backup needs to know of its source cluster: the topics meant, their shapes, their bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.metadata import TopicMetadata
from offsite.log.range import TopicPartition
from offsite.model.errors import NoSuchTopic
from offsite.model.selection import TopicSelection, no_topics
from offsite.pipeline.plan import PartitionBounds
from offsite.repository.commit import TopicShape
from offsite.services.group_history import with_history
from offsite.services.schemas_topic import with_schemas


class MissingTopics(StrEnum):
    """What to do when a topic named literally does not exist."""

    FAIL = "fail"
    WARN = "warn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The selected topics of a cluster at one moment. `missing` were named literally and do not exist."""

    cluster_id: str
    shapes: tuple[TopicShape, ...]
    bounds: tuple[PartitionBounds, ...]
    missing: tuple[str, ...]


def read_source(
    admin: ClusterAdmin,
    selection: TopicSelection,
    *,
    missing_topics: MissingTopics,
    schemas_topic: str = "",
    group_history: bool = False,
) -> Source:
    """Ask the cluster. Raises `NoSuchTopic` when nothing matches, and for a missing topic unless that is to warn.

    `schemas_topic` is taken along where it exists, with `group_history` the topic that groups live in as well.
    """
    cluster_id = admin.cluster().cluster_id
    known = admin.topics()
    missing = selection.missing(known)
    if missing and missing_topics is MissingTopics.FAIL:
        raise NoSuchTopic(
            f"topic {', '.join(missing)} does not exist on cluster {cluster_id}",
            hint="check the name, or go on without it: --missing-topics warn",
        )
    names = selection.select(known, internal=frozenset(name for name, topic in known.items() if topic.internal))
    if not names:
        raise no_topics(selection)
    names = with_schemas(names, schemas_topic, known=known, selection=selection)
    names = with_history(names, wanted=group_history, known=known)
    topics = [known[name] for name in names]
    return Source(
        cluster_id=cluster_id,
        shapes=_shapes(topics, admin.topic_configs(names), schemas_topic),
        bounds=_bounds(admin, topics),
        missing=missing,
    )


def _shapes(
    topics: Sequence[TopicMetadata], configs: Mapping[str, Mapping[str, str]], schemas_topic: str
) -> tuple[TopicShape, ...]:
    return tuple(
        TopicShape(
            topic=topic.name,
            topic_id=_topic_id(topic),
            partitions=len(topic.partitions),
            replication_factor=topic.replication_factor,
            configs=tuple(sorted(configs[topic.name].items())),
            holds_schemas=topic.name == schemas_topic,
        )
        for topic in topics
    )


def _bounds(admin: ClusterAdmin, topics: Sequence[TopicMetadata]) -> tuple[PartitionBounds, ...]:
    ids = {topic.name: _topic_id(topic) for topic in topics}
    partitions = [TopicPartition(topic=t.name, partition=p.partition) for t in topics for p in t.partitions]
    starts, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
    sizes = admin.sizes_bytes(partitions)
    return tuple(
        PartitionBounds(
            topic=each.topic,
            topic_id=ids[each.topic],
            partition=each.partition,
            log_start=starts[each],
            end=max(starts[each], ends[each]),
            size_bytes=sizes.get(each, 0),
        )
        for each in sorted(partitions)
    )


def _topic_id(topic: TopicMetadata) -> str:
    return "" if topic.topic_id is None else str(topic.topic_id)
