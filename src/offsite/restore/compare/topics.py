"""The topics of a comparison: whether a cluster's topic is the very topic of the backup, and the topics left out with
the reason, because nothing exists to compare them with. Pure.

A topic made anew under its name is another topic. Only evidence in the backup leaves a topic out: an incarnation marked
as deleted, and not listed at its source either. A topic that is missing and was never marked is a difference. So is a
topic that a copy lacks: the source deleted the topic, and nobody decided that the copy should lose it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from offsite.kafka.protocol.metadata import TopicMetadata
from offsite.log.range import LogRange, PartitionId, TopicIncarnation
from offsite.model.units import format_time
from offsite.points.point_in_time import SelectedChains
from offsite.repository.commit import NOT_DELETED, TopicShape
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutTopic:
    """An incarnation of a topic that was not compared. `deleted_ms`: when a run found the topic deleted at the source
    (epoch ms, -1: unknown). `made_anew`: a newer incarnation with the name exists, and was compared, or is left out
    itself. `compacted`: the backup was compacted since the cluster got its records, and may hold fewer records now."""

    topic: str
    topic_id: str
    deleted_ms: int
    made_anew: bool
    compacted: bool = False

    def __str__(self) -> str:
        if self.compacted:
            return f"{self.topic}: compacted in the backup, which may have fewer records now: not compared"
        since = "" if self.deleted_ms == NOT_DELETED else f" since {format_time(self.deleted_ms)} or before"
        if self.made_anew:
            older = f"an older incarnation ({self.topic_id or 'no id'})"
            return f"{self.topic}: {older}, replaced at the source{since}: not compared"
        return f"{self.topic}: deleted at the source{since}: not compared"


def leave_out_deleted(
    selected: SelectedChains, point: BackupState, head: BackupState, *, listed: Collection[str], at_source: bool
) -> tuple[SelectedChains, tuple[LeftOutTopic, ...]]:
    """The part of `selected` at `point` to compare, and the topics left out, including older incarnations. `head`: the
    newest state, which may know of more deletions. `listed`: the topics of the cluster. `at_source`: the cluster is the
    source of the backup."""
    marks = {incarnation: shape.deleted_ms for incarnation, shape in head.topics.items() if shape.is_deleted}
    gone = {
        topic.topic
        for topic in selected.topics
        if at_source and topic.shape.incarnation in marks and topic.topic not in listed
    }
    compared = replace(
        selected,
        topics=tuple(topic for topic in selected.topics if topic.topic not in gone),
        holes=tuple(hole for hole in selected.holes if hole.partition_id.topic not in gone),
    )
    newest = {topic.topic: topic.shape for topic in selected.topics}
    shapes = [shape for shape in point.topics.values() if shape.topic in newest]
    return compared, tuple(_left_out(shapes, newest, gone, marks))


def leave_out_compacted(
    selected: SelectedChains, point: BackupState, *, same: Collection[str]
) -> tuple[SelectedChains, tuple[LeftOutTopic, ...]]:
    """The part of `selected` to compare, and the topics with fewer records in the backup than in a copy. Topics that
    are the `same` are compared by offset, behind the compacted range."""
    compacted = {partition_id.topic for partition_id in point.compacted} - set(same)
    remaining = replace(selected, topics=tuple(topic for topic in selected.topics if topic.topic not in compacted))
    return remaining, tuple(
        leave_out_as_compacted(topic.shape) for topic in selected.topics if topic.topic in compacted
    )


def leave_out_as_compacted(shape: TopicShape) -> LeftOutTopic:
    """A topic left out because it was compacted."""
    return LeftOutTopic(
        topic=shape.topic, topic_id=shape.topic_id, deleted_ms=NOT_DELETED, made_anew=False, compacted=True
    )


def _left_out(
    shapes: list[TopicShape],
    newest: Mapping[str, TopicShape],
    gone: Collection[str],
    marks: Mapping[TopicIncarnation, int],
) -> Iterator[LeftOutTopic]:
    for shape in shapes:
        is_newest = shape.incarnation == newest[shape.topic].incarnation
        if not is_newest or shape.topic in gone:
            deleted_ms = marks.get(shape.incarnation, NOT_DELETED)
            yield LeftOutTopic(
                topic=shape.topic, topic_id=shape.topic_id, deleted_ms=deleted_ms, made_anew=not is_newest
            )
