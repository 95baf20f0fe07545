"""The offsets on a target that stand for committed offsets: each by the map of its partition, one map in memory at a
time.

The rules are the map's: the record itself; for one that is not there the next that is; end to end; beyond the end the
end; below the first record the first.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from offsite.log.groups.offsets import GroupTable, TopicOffsets
from offsite.log.offset_map import OffsetMap, OffsetMapBuilder
from offsite.log.range import TopicPartition
from offsite.model.journal import decided

MATCHES = ("exact", "gap", "end", "below", "above", "missing")
"""The ways in which an offset is found: the words of `MappedOffset`, and `missing` for a partition that the target has
not."""
_CODES = {match: code for code, match in enumerate(MATCHES)}
MISSING = _CODES["missing"]
CLAMPED = frozenset({_CODES["below"], _CODES["above"]})
NO_OFFSET = -1


class OffsetMapping(Protocol):
    """A mapping from the offsets of a backup's source to those of one target."""

    def target(self, topic: str) -> str | None:
        """The name on the target, or None when the topic has none there."""

    def offset_map(self, topic: str, partition: int) -> OffsetMap | None:
        """The map of one source partition, or None when the target has nothing that stands for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """One group's offsets on one topic: row by row the new offset (-1: none) and, as a number in `MATCHES`, how it was
    found."""

    source: TopicOffsets
    target: str
    offsets: array[int]
    matches: bytearray


@dataclass(frozen=True, slots=True, kw_only=True)
class SameOffsets:
    """The mapping onto a cluster that holds the records at their own offsets: offsets are only kept within the log.
    `bounds`: where the logs of the target's partitions begin and end; `names`: source topics that are called otherwise
    there."""

    bounds: Mapping[TopicPartition, tuple[int, int]]
    names: Mapping[str, str]

    def target(self, topic: str) -> str | None:
        name = self.names.get(topic, topic)
        return name if TopicPartition(topic=name, partition=0) in self.bounds else None

    def offset_map(self, topic: str, partition: int) -> OffsetMap | None:
        key = TopicPartition(topic=self.names.get(topic, topic), partition=partition)
        if key not in self.bounds:
            return None
        start, end = self.bounds[key]
        builder = OffsetMapBuilder(source_start=start, target_start=start)
        builder.add(start, start, end - start)
        return builder.build()


def translate(groups: GroupTable, mapping: OffsetMapping) -> tuple[dict[str, list[Translated]], tuple[str, ...]]:
    """All offsets of `groups`: group → its topics that are on the target, and the topics that are not."""
    members: dict[str, list[tuple[str, TopicOffsets]]] = {}
    for name, group in groups.items():
        for topic in group.topics:
            members.setdefault(topic.topic, []).append((name, topic))
    moved: dict[str, list[Translated]] = {}
    absent = []
    for source in sorted(members):
        target = mapping.target(source)
        if target is None:
            absent.append(source)
            continue
        offsets = [topic for _, topic in members[source]]
        for (name, _), translated in zip(
            members[source], _translate_topic(mapping, source, target, offsets), strict=True
        ):
            moved.setdefault(name, []).append(translated)
    return moved, tuple(absent)


def _translate_topic(
    mapping: OffsetMapping, topic: str, target: str, members: Sequence[TopicOffsets]
) -> Sequence[Translated]:
    drafts = [
        Translated(
            source=each,
            target=target,
            offsets=array("q", (NO_OFFSET,)) * len(each),
            matches=bytearray((MISSING,)) * len(each),
        )
        for each in members
    ]
    for partition in sorted({number for each in members for number in each.partitions}):
        offset_map = mapping.offset_map(topic, partition)
        if offset_map is not None:
            for draft in drafts:
                _translate_row(draft, partition, offset_map)
            _tell(topic, partition, drafts)
    return drafts


def _tell(topic: str, partition: int, drafts: Sequence[Translated]) -> None:
    """A line for each way in which offsets on the partition had to be moved into the log, however many groups."""
    rows = ((draft, _row(draft, partition)) for draft in drafts)
    for match, count in Counter(draft.matches[row] for draft, row in rows if row is not None).items():
        if match in CLAMPED:
            how = MATCHES[match]
            why = f"committed {how} what the target holds: they go to its {'start' if how == 'below' else 'end'}"
            decided("clamp", topic=topic, partition=partition, groups=count, how=how, why=why)


def _row(draft: Translated, partition: int) -> int | None:
    """Where the group's offset on `partition` stands."""
    partitions = draft.source.partitions
    row = bisect_left(partitions, partition)
    return row if row < len(partitions) and partitions[row] == partition else None


def _translate_row(draft: Translated, partition: int, offset_map: OffsetMap) -> None:
    row = _row(draft, partition)
    if row is not None:
        found = offset_map.lookup(draft.source.offsets[row])
        draft.offsets[row], draft.matches[row] = found.target, _CODES[found.match]
