"""Whether a cluster's topic is the very topic of the backup, and the offsets that the backup covers.

A topic created again under its name is another topic. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from offsite.kafka.protocol.metadata import TopicMetadata
from offsite.log.range import LogRange
from offsite.repository.commit import PartitionId, TopicShape
from offsite.repository.descriptor import BackupDescriptor, import_origin
from offsite.repository.state import BackupState
from offsite.restore.compare.expected import NO_EXTENT, BackupExtent


@dataclass(frozen=True, slots=True, kw_only=True)
class SameTopics:
    """Names of topics that are those of the backup, sorted. `by_name`: neither the cluster nor the backup has topic
    ids; a topic created again would be taken for the old one, and its records would be named as differences."""

    by_id: tuple[str, ...]
    by_name: tuple[str, ...]


def same_topics(
    shapes: Iterable[TopicShape], listed: Mapping[str, TopicMetadata], *, descriptor: BackupDescriptor, cluster_id: str
) -> SameTopics:
    """The backup's topics in the cluster with the same incarnation and name."""
    of_this_cluster = descriptor.cluster_id == cluster_id and not import_origin(descriptor)
    existing = [(shape, listed[shape.topic]) for shape in shapes if shape.topic in listed]
    return SameTopics(
        by_id=tuple(sorted(s.topic for s, t in existing if t.topic_id is not None and str(t.topic_id) == s.topic_id)),
        by_name=tuple(
            sorted(s.topic for s, t in existing if t.topic_id is None and not s.topic_id and of_this_cluster)
        ),
    )


def log_extents(point: BackupState, shape: TopicShape) -> dict[int, BackupExtent]:
    """The extent of every partition of the topic: from the start of its backup to the committed position."""
    return {partition_id.partition: _extent(point, partition_id) for partition_id in shape.partition_ids}


def _extent(point: BackupState, partition: PartitionId) -> BackupExtent:
    position = point.positions.get(partition)
    if position is None:
        return NO_EXTENT
    holes, segments = tuple(_holes(point, partition)), point.segments.get(partition, ())
    begins = (position.log_start, *(hole.start for hole in holes), *(segment.start for segment in segments))
    start = min(*begins, position.end)
    exact_from = max((min(high, position.end) for _, high in point.compacted.get(partition, ())), default=0)
    if start < exact_from:  # the compacted range no longer has all records that the log may hold
        holes = (*holes, LogRange(topic=partition.topic, partition=partition.partition, start=start, end=exact_from))
    return BackupExtent(start=start, end=position.end, holes=holes, exact_from=exact_from)


def _holes(point: BackupState, partition: PartitionId) -> Iterator[LogRange]:
    for hole in point.holes:
        if hole.partition_id == partition:
            yield LogRange(topic=partition.topic, partition=partition.partition, start=hole.start, end=hole.end)
