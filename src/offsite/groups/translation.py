"""The target offsets for committed offsets: by the map of the partition, one map in memory at a time.

The rules of a map: the record itself; for a missing record the next one; end to end; beyond the end the end; below the
first record the first. A share group without a position begins at the first record if it began there at the source;
else nobody knows where it had begun, and no position is set.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from offsite.groups.missing_records import (
    AvailableRecords,
    EarlierOffsets,
    RefusedOffset,
    find_available_records,
)
from offsite.log.group_offsets import NO_OFFSET, GroupOffsets, GroupTable, TopicOffsets
from offsite.log.offset_map import OffsetMap, OffsetMapBuilder
from offsite.log.range import TopicPartition
from offsite.model.journal import decided
from offsite.repository.snapshots.commit_cut import CommitCut
from offsite.repository.state import BackupState

MATCHES = ("exact", "gap", "end", "below", "above", "missing", "refused", "behind", "start", "no position")
"""The ways in which an offset is found: the words of `MappedOffset`; `missing` for a partition that the target lacks;
`refused` for all offsets of a group that would skip or repeat work; `behind` for the next record of a group whose
source had deleted earlier records; `start` for the first record, and `no position` for none, of a share group without a
position."""
_CODES = {match: code for code, match in enumerate(MATCHES)}
MISSING, REFUSED, BEHIND = _CODES["missing"], _CODES["refused"], _CODES["behind"]
START, NO_POSITION = _CODES["start"], _CODES["no position"]
ABOVE = _CODES["above"]
CLAMPED = frozenset({_CODES["below"], ABOVE})
FROM_START = "earliest"
"""The reset of a share group that begins at the first record of a partition without a position."""


class OffsetMapping(Protocol):
    """A mapping from the offsets of a backup's source to those of one target. `available`: decides which offsets would
    skip or repeat work; None: every offset is moved into the log."""

    @property
    def available(self) -> AvailableRecords | None: ...

    def target(self, topic: str) -> str | None:
        """The name on the target, or None for a topic without one."""

    def offset_map(self, topic: str, partition: int) -> OffsetMap | None:
        """The map of one source partition, or None when the target has no such partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedOffsets:
    """One group's offsets on one topic. By row: the new offset (-1: none), and an index into `MATCHES` for the kind of
    match."""

    source: TopicOffsets
    target: str
    offsets: array[int]
    matches: bytearray


@dataclass(frozen=True, slots=True, kw_only=True)
class SameOffsets:
    """The mapping onto a cluster with the records at their own offsets: offsets are only clamped to the log. `bounds`:
    begin and end of the logs of the target's partitions; `names`: source topics with another name on the target."""

    bounds: Mapping[TopicPartition, tuple[int, int]]
    names: Mapping[str, str]
    available: AvailableRecords | None = None

    def judged_by(
        self, groups_of: BackupState, cut: CommitCut | None, earlier: tuple[EarlierOffsets, ...] = ()
    ) -> SameOffsets:
        """The same, with offsets refused below the logs of the target and below holes of the backup. `groups_of`: the
        state of the groups, except `earlier` ones, and the `cut` of its commit."""
        begins = {
            partition_id: self.bounds[key][0]
            for shape in groups_of.latest_shapes().values()
            for partition_id in shape.partition_ids
            if (key := self._on_target(partition_id.topic, partition_id.partition)) in self.bounds
        }
        return replace(
            self, available=replace(find_available_records(groups_of, begins, cut, earlier=earlier), begins=begins)
        )

    def _on_target(self, topic: str, partition: int) -> TopicPartition:
        return TopicPartition(topic=self.names.get(topic, topic), partition=partition)

    def target(self, topic: str) -> str | None:
        name = self.names.get(topic, topic)
        return name if TopicPartition(topic=name, partition=0) in self.bounds else None

    def offset_map(self, topic: str, partition: int) -> OffsetMap | None:
        key = self._on_target(topic, partition)
        if key not in self.bounds:
            return None
        start, end = self.bounds[key]
        builder = OffsetMapBuilder(source_start=start, target_start=start)
        builder.add(start, start, end - start)
        return builder.build()


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """`moved`: by group, the topics that exist on the target. `absent`: the missing topics. `refused`: offsets that are
    not set."""

    moved: Mapping[str, Sequence[TranslatedOffsets]]
    absent: tuple[str, ...]
    refused: tuple[RefusedOffset, ...]


def translate(groups: GroupTable, mapping: OffsetMapping) -> Translation:
    """Translate all offsets of `groups`."""
    members: dict[str, list[tuple[GroupOffsets, TopicOffsets]]] = {}
    for group in groups.values():
        for topic in group.topics:
            members.setdefault(topic.topic, []).append((group, topic))
    moved: dict[str, list[TranslatedOffsets]] = {}
    absent = []
    refused: list[RefusedOffset] = []
    for source in sorted(members):
        target = mapping.target(source)
        if target is None:
            absent.append(source)
            continue
        drafts, lost = _translate_topic(mapping, source, target, members[source])
        refused += lost
        for (group, _), translated in zip(members[source], drafts, strict=True):
            moved.setdefault(group.group, []).append(translated)
    for name in {
        refused_offset.group for refused_offset in refused
    }:  # half of a group's offsets would be worse than none
        for draft in moved[name]:
            _refuse(draft)
    return Translation(moved=moved, absent=tuple(absent), refused=tuple(refused))


def _refuse(draft: TranslatedOffsets) -> None:
    for row, match in enumerate(draft.matches):
        if match not in {MISSING, NO_POSITION}:
            draft.offsets[row], draft.matches[row] = NO_OFFSET, REFUSED


def _translate_topic(
    mapping: OffsetMapping, topic: str, target: str, members: Sequence[tuple[GroupOffsets, TopicOffsets]]
) -> tuple[Sequence[TranslatedOffsets], list[RefusedOffset]]:
    drafts = [
        TranslatedOffsets(
            source=offsets,
            target=target,
            offsets=array("q", (NO_OFFSET,)) * len(offsets),
            matches=bytearray((MISSING,)) * len(offsets),
        )
        for _, offsets in members
    ]
    refused: list[RefusedOffset] = []
    for partition in sorted({number for _, offsets in members for number in offsets.partitions}):
        offset_map = mapping.offset_map(topic, partition)
        if offset_map is not None:
            for (group, _), draft in zip(members, drafts, strict=True):
                refused += _translate_row(group, draft, partition, offset_map, mapping.available)
            _tell(topic, partition, drafts)
    return drafts, refused


def _tell(topic: str, partition: int, drafts: Sequence[TranslatedOffsets]) -> None:
    """Log one line per kind of clamped offset on the partition, for any number of groups."""
    rows = ((draft, _row(draft, partition)) for draft in drafts)
    for match, count in Counter(draft.matches[row] for draft, row in rows if row is not None).items():
        if match in CLAMPED:
            how = MATCHES[match]
            why = f"committed {how} the restored records: set to the {'start' if how == 'below' else 'end'}"
            decided("clamp", topic=topic, partition=partition, groups=count, how=how, why=why)


def _row(draft: TranslatedOffsets, partition: int) -> int | None:
    """The row of the group's offset on `partition`."""
    partitions = draft.source.partitions
    row = bisect_left(partitions, partition)
    return row if row < len(partitions) and partitions[row] == partition else None


def _translate_row(
    group: GroupOffsets,
    draft: TranslatedOffsets,
    partition: int,
    offset_map: OffsetMap,
    available: AvailableRecords | None,
) -> Iterator[RefusedOffset]:
    """Translate the offset of the group, unless the group would skip or repeat work."""
    if (row := _row(draft, partition)) is None:
        return
    offset, topic = draft.source.offsets[row], draft.source.topic
    if offset == NO_OFFSET and group.reset != FROM_START:
        draft.matches[row] = NO_POSITION
        return
    if offset == NO_OFFSET:
        offset = offset_map.source_start
        draft.offsets[row], draft.matches[row] = offset_map.target_start, START
    else:
        mapped = offset_map.lookup(offset)
        draft.offsets[row], draft.matches[row] = mapped.target, _CODES[mapped.match]
    where = None if available is None else available.partition_id(topic, partition)
    if available is None or where is None:
        return
    if why := available.why_not(group.group, where, offset, end=offset_map.source_end):
        yield RefusedOffset(group=group.group, topic=topic, partition=partition, offset=offset, why=why)
    elif available.is_behind(group.group, where, offset):
        draft.matches[row] = BEHIND
