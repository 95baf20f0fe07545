"""The committed offsets of groups for a consistent cut: the offsets of its commit, except where the cut has other
offsets. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from offsite.log.group_offsets import CommittedOffset, GroupOffsets, GroupTable, TopicOffsets
from offsite.repository.commit import TopicIncarnation
from offsite.repository.snapshots.commit_cut import CutGroup

_Entries = dict[TopicIncarnation, dict[int, CutGroup]]


def apply_cut_offsets(groups: GroupTable, entries: Iterable[CutGroup]) -> dict[str, GroupOffsets]:
    """`groups`, sorted by name, with offsets and metadata replaced by those of `entries`; -1 removes an offset. A
    replaced offset has no leader epoch: the epoch belongs to the commit's own offset."""
    changed: defaultdict[str, _Entries] = defaultdict(lambda: defaultdict(dict))
    for cut_group in entries:
        changed[cut_group.group][cut_group.partition_id.incarnation][cut_group.partition_id.partition] = cut_group
    overlaid = {
        name: _overlaid(groups.get(name, GroupOffsets(group=name)), changed[name]) if name in changed else groups[name]
        for name in sorted({*groups, *changed})
    }
    return {name: group for name, group in overlaid.items() if group.topics}


def _overlaid(group: GroupOffsets, entries: _Entries) -> GroupOffsets:
    by_incarnation = {(offsets.topic, offsets.topic_id): offsets for offsets in group.topics}
    remaining = dict(entries)
    topics = [_replaced(offsets, _pop_cut_groups(remaining, offsets)) for offsets in by_incarnation.values()]
    topics += [
        _replaced(TopicOffsets.of(incarnation.topic, (), topic_id=incarnation.topic_id), offsets)
        for incarnation, offsets in remaining.items()
    ]
    return replace(
        group, topics=tuple(sorted((offsets for offsets in topics if len(offsets)), key=lambda offsets: offsets.topic))
    )


def _pop_cut_groups(entries: _Entries, offsets: TopicOffsets) -> dict[int, CutGroup]:
    """The entries of the topic. Removes them from `entries`. A snapshot may not know the topic's id."""
    for incarnation in list(entries):
        if incarnation.topic == offsets.topic and offsets.topic_id in ("", incarnation.topic_id):
            return entries.pop(incarnation)
    return {}


def _replaced(current: TopicOffsets, entries: dict[int, CutGroup]) -> TopicOffsets:
    return TopicOffsets.of(current.topic, _rows(current, entries), topic_id=current.topic_id) if entries else current


def _rows(current: TopicOffsets, entries: dict[int, CutGroup]) -> Iterator[CommittedOffset]:
    yield from (row for row in current if row.partition not in entries)
    for partition, entry in entries.items():
        if entry.offset >= 0:
            yield CommittedOffset(partition=partition, offset=entry.offset, metadata=entry.metadata)
