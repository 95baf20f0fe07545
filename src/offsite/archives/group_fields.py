"""Committed offsets of groups as fields of a manifest: columns for each topic, as `GroupOffsets` holds them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

from offsite.archives.index_fields import BadIndex, IndexObject, topic_name
from offsite.log.group_offsets import NO_EPOCH, GroupOffsets, TopicOffsets
from offsite.model.bounds import MAX_PARTITIONS

__all__ = ["group_fields", "group_of"]

_MAX_EPOCH = (1 << 31) - 1


def group_fields(group: GroupOffsets) -> Mapping[str, object]:
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


def group_of(item: IndexObject) -> GroupOffsets:
    return GroupOffsets(
        group=item.text("group"),
        kind=item.text("kind"),
        state=item.text("state"),
        topics=tuple(_topic_offsets(each) for each in item.children("topics")),
    )


def _topic_offsets(item: IndexObject) -> TopicOffsets:
    partitions = item.integers("partitions", most=MAX_PARTITIONS - 1)
    offsets = item.integers("offsets", least=-1)
    epochs = item.integers("leader_epochs", least=NO_EPOCH, most=_MAX_EPOCH)
    metadata = item.texts("metadata")
    if not len(partitions) == len(offsets) == len(epochs) == len(metadata):
        raise BadIndex("columns of group offsets differ in length")
    return TopicOffsets(
        topic=topic_name(item.text("topic")),
        topic_id=item.text("topic_id"),
        partitions=array("i", partitions),
        offsets=array("q", offsets),
        leader_epochs=array("i", epochs),
        metadata=metadata,
    )
