"""`consumer-groups-snapshot.json`: committed offsets in the tool's form, without metadata and leader epochs. Pure.

The snapshot is taken beside the data, not at a consistent cut, so an offset may lie beyond the last archived record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from offsite.archives.osodevops.manifest import NotTheTools, ToolObject
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.log.range import TopicPartition
from offsite.model.bounds import MAX_OFFSET, MAX_PARTITIONS

Groups = dict[str, GroupOffsets]


def parse_snapshot(data: bytes) -> Groups:
    """Return the groups by name. Raises `NotTheTools`."""
    groups = (_group(group_document) for group_document in ToolObject.parse(data).children("groups"))
    return {group.group: group for group in sorted(groups, key=lambda group: group.group) if group.topics}


def encode_snapshot(groups: Mapping[str, GroupOffsets], *, snapshot_ms: int) -> bytes:
    rows = [{"group_id": name, "offsets": _offsets(groups[name])} for name in sorted(groups)]
    return json.dumps({"snapshot_time": snapshot_ms, "groups": rows}, indent=2).encode()


def limit_to_ends(groups: Mapping[str, GroupOffsets], ends: Mapping[TopicPartition, int]) -> tuple[Groups, list[str]]:
    """Limit offsets to the end of their partition; also returns a sentence per moved offset.

    A partition outside `ends` has no known end and keeps the offsets.
    """
    limited: Groups = {}
    moved: list[str] = []
    for name, group in groups.items():
        topics = []
        for topic in group.topics:
            rows = [_within(row, ends.get(TopicPartition(topic=topic.topic, partition=row.partition))) for row in topic]
            topics.append(TopicOffsets.of(topic.topic, rows))
            moved += [
                f"group {name} had committed {old.offset} of {topic.topic}/{old.partition}, beyond the archive's end: "
                f"it is set to {new.offset}"
                for old, new in zip(topic, rows, strict=True)
                if old != new
            ]
        limited[name] = GroupOffsets(group=name, topics=tuple(topics))
    return limited, moved


def _within(row: CommittedOffset, end: int | None) -> CommittedOffset:
    return row if end is None or row.offset <= end else row._replace(offset=end)


def _group(fields: ToolObject) -> GroupOffsets:
    topics = fields.child("offsets")
    return GroupOffsets(
        group=fields.text("group_id"),
        topics=tuple(
            TopicOffsets.of(topic, rows)
            for topic in sorted(topics.fields)
            if (rows := [_row(*pair) for pair in topics.child(topic).numbered()])
        ),
    )


def _row(partition: int, offset: int) -> CommittedOffset:
    if not (0 <= partition < MAX_PARTITIONS and 0 <= offset <= MAX_OFFSET):
        raise NotTheTools(f"a committed offset of {offset} in partition {partition}")
    return CommittedOffset(partition, offset)


def _offsets(group: GroupOffsets) -> dict[str, dict[str, int]]:
    return {
        topic.topic: {str(partition): offset for partition, offset in topic.by_partition().items()}
        for topic in group.topics
    }
