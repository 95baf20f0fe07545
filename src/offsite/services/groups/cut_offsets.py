"""The committed offsets of groups for a consistent cut: the offsets of its commit, except where the cut has other
offsets. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from offsite.log.groups.offsets import CommittedOffset, GroupOffsets, GroupTable, TopicOffsets
from offsite.repository.commit import TopicIncarnation
from offsite.repository.snapshots.commit_cut import CutGroup

_Entries = dict[TopicIncarnation, dict[int, CutGroup]]


def as_of_cut(groups: GroupTable, entries: Iterable[CutGroup]) -> dict[str, GroupOffsets]:
    """`groups`, sorted by name, with offsets and metadata replaced by those of `entries`; -1 removes an offset. A
    replaced offset has no leader epoch: the epoch belongs to the commit's own offset."""
    changed: defaultdict[str, _Entries] = defaultdict(lambda: defaultdict(dict))
    for each in entries:
        changed[each.group][each.partition_id.incarnation][each.partition_id.partition] = each
    found = {
        name: _overlaid(groups.get(name, GroupOffsets(group=name)), changed[name]) if name in changed else groups[name]
        for name in sorted({*groups, *changed})
    }
    return {name: group for name, group in found.items() if group.topics}


def _overlaid(group: GroupOffsets, entries: _Entries) -> GroupOffsets:
    known = {(each.topic, each.topic_id): each for each in group.topics}
    left = dict(entries)
    topics = [_replaced(each, _taken(left, each)) for each in known.values()]
    topics += [
        _replaced(TopicOffsets.of(each.topic, (), topic_id=each.topic_id), offsets) for each, offsets in left.items()
    ]
    return replace(group, topics=tuple(sorted((each for each in topics if len(each)), key=lambda each: each.topic)))


def _taken(entries: _Entries, known: TopicOffsets) -> dict[int, CutGroup]:
    """The entries of the topic. Removes them from `entries`. A snapshot may not know the topic's id."""
    for each in list(entries):
        if each.topic == known.topic and known.topic_id in ("", each.topic_id):
            return entries.pop(each)
    return {}


def _replaced(known: TopicOffsets, entries: dict[int, CutGroup]) -> TopicOffsets:
    return TopicOffsets.of(known.topic, _rows(known, entries), topic_id=known.topic_id) if entries else known


def _rows(known: TopicOffsets, entries: dict[int, CutGroup]) -> Iterator[CommittedOffset]:
    yield from (row for row in known if row.partition not in entries)
    for partition, entry in entries.items():
        if entry.offset >= 0:
            yield CommittedOffset(partition=partition, offset=entry.offset, metadata=entry.metadata)
