"""Committed offsets of groups as fields of a manifest: columns for each topic, as `GroupOffsets` holds them."""

from __future__ import annotations

from array import array

from offsite.archives.index_fields import (
    MAX_INT,
    BadIndex,
    Fields,
    integers,
    objects,
    text,
    texts,
    topic_name,
)
from offsite.log.group_offsets import NO_EPOCH, GroupOffsets, TopicOffsets
from offsite.model.bounds import MAX_PARTITIONS

__all__ = ["group_fields", "group_of"]


def group_fields(group: GroupOffsets) -> Fields:
    topics = [
        {
            "topic": each.topic,
            "topic_id": each.topic_id,
            "partitions": list(each.partitions),
            "offsets": list(each.offsets),
            "leader_epochs": list(each.leader_epochs),
            "metadata": list(each.metadata),
        }
        for each in group.topics
    ]
    return {"group": group.group, "kind": group.kind, "state": group.state, "topics": topics}


def group_of(fields: Fields) -> GroupOffsets:
    return GroupOffsets(
        group=text(fields, "group"),
        kind=text(fields, "kind"),
        state=text(fields, "state"),
        topics=tuple(_topic_offsets(each) for each in objects(fields, "topics")),
    )


def _topic_offsets(fields: Fields) -> TopicOffsets:
    partitions = integers(fields, "partitions", most=MAX_PARTITIONS - 1)
    offsets = integers(fields, "offsets", least=-1)
    epochs = integers(fields, "leader_epochs", least=NO_EPOCH, most=MAX_INT)
    metadata = texts(fields, "metadata")
    if not len(partitions) == len(offsets) == len(epochs) == len(metadata):
        raise BadIndex("columns of group offsets differ in length")
    return TopicOffsets(
        topic=topic_name(text(fields, "topic")),
        topic_id=text(fields, "topic_id"),
        partitions=array("i", partitions),
        offsets=array("q", offsets),
        leader_epochs=array("i", epochs),
        metadata=tuple(metadata),
    )
