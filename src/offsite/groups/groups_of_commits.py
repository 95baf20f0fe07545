"""The groups of a commit: as copied, with the offsets of its cut, or as of the newest commit that had them.

A snapshot no longer has offsets on a deleted topic, or of a group that is gone. Both are as of the newest commit that
had them, as a restore would have put them in place then: by the default point of the commit when the restore goes by
cuts. Commits and snapshots are kept for ever, whatever data retention removes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from offsite.groups.missing_records import EarlierOffsets, read_commit_cut
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, GroupTable, TopicOffsets
from offsite.log.range import TopicIncarnation
from offsite.model.errors import NoSuchRestorePoint
from offsite.model.options import CutChoice
from offsite.points.point_cut import choose_cut, default_point
from offsite.repository.backup import Backup
from offsite.repository.snapshots.commit_cut import CutGroup
from offsite.repository.snapshots.group_snapshot import GoneGroup, GroupSnapshot, read_group_snapshot
from offsite.repository.state import BackupState

_Entries = dict[TopicIncarnation, dict[int, CutGroup]]
CACHED_MAX = 4
"""States and tables of groups in memory: a state or a table may have a million entries."""


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


KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierGroups:
    """The groups on one topic as of an earlier commit, `origin`; `gone`: groups already gone by then."""

    origin: EarlierOffsets
    groups: GroupTable
    gone: tuple[GoneGroup, ...] = ()

    def only(self, names: Container[str]) -> EarlierGroups:
        """The same for the groups with the given names."""
        return replace(self, groups={name: group for name, group in self.groups.items() if name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommits:
    """Reads the groups of commits, and caches the last few: with calls in the order of commits every commit is read
    once. `by_cut`: as of the consistent cuts of commits, where they exist."""

    backup: Backup
    by_cut: bool
    _states: dict[int, BackupState] = field(default_factory=dict)
    _groups: dict[int, GroupTable] = field(default_factory=dict)
    _snapshots: dict[str, GroupSnapshot] = field(default_factory=dict)

    def on_topic(self, incarnation: TopicIncarnation, until: BackupState) -> EarlierGroups | None:
        """The groups on a topic as of the newest commit up to `until` with the topic. None without such a commit, or
        without groups read by then. Raises `DamagedCommit`, `DamagedObject`."""
        if incarnation not in until.topics:
            return None
        last = until if until.is_live(incarnation) else self._last_alive(incarnation, until)
        return None if last is None else self._groups_on(incarnation, last)

    def of_gone(self, gone: GoneGroup) -> EarlierGroups | None:
        """A group on a topic as of the commit before the group was gone. Raises as `on_topic`."""
        earlier_groups = self._groups_on(gone.incarnation, self.state(gone.since - 1), group=gone.group)
        return (
            None
            if earlier_groups is None
            else replace(earlier_groups, origin=replace(earlier_groups.origin, gone_since=gone.since))
        )

    def committed_ms(self, seq: int) -> int:
        """The time of a commit, by the store's clock (epoch ms); -1 for an unreadable commit."""
        stored = self.backup.log.get(seq)
        return -1 if stored is None else stored.commit.committed_at_ms

    def snapshot(self, state: BackupState) -> GroupSnapshot:
        """The groups of a commit as copied. Raises `NoSuchRestorePoint` if nobody read the groups, and
        `DamagedObject`."""
        if (key := state.groups) is None:
            raise NoSuchRestorePoint(
                f"backup {state.backup} has no groups at commit {state.seq}",
                hint="groups were left out (--groups none), or there was no commit yet: run offsite backup run",
            )
        if key not in self._snapshots:
            _cache_value(self._snapshots, key, read_group_snapshot(self.backup.store, key))
        return self._snapshots[key]

    def state(self, seq: int) -> BackupState:
        """The state after commit `seq`, even if retention has removed its data. Raises `DamagedCommit`."""
        if seq not in self._states:
            below = max((commit for commit in self._states if commit < seq), default=None)
            near = None if below is None else self._states[below]
            _cache_value(self._states, seq, self.backup.catalog.state(upto=seq, near=near))
        return self._states[seq]

    def _groups_on(self, incarnation: TopicIncarnation, state: BackupState, *, group: str = "") -> EarlierGroups | None:
        """The groups, or one of them, on a topic as a restore would have put them in place when `state` was newest."""
        if state.groups is None:
            return None
        point = self.state(default_point(self.backup.store, state).commit) if self.by_cut else state
        if not point.is_live(incarnation) or point.groups is None or group not in {"", *self.snapshot(point).groups}:
            point = state  # topic or groups are younger than the default point
        origin = EarlierOffsets(
            incarnation=incarnation,
            group=group,
            commit=point.seq,
            committed_at_ms=point.committed_at_ms,
            cut=read_commit_cut(self.backup.store, point),
        )
        groups = {
            name: group_offsets for name, group_offsets in self._as_of(point).items() if not group or name == group
        }
        remaining = {
            name: remaining
            for name, group_offsets in groups.items()
            if (remaining := _only_on(group_offsets, incarnation)).topics
        }
        missing = (gone_group for gone_group in self.snapshot(point).gone if gone_group.incarnation == incarnation)
        gone = tuple(
            gone_group for gone_group in missing if gone_group.group not in remaining and gone_group.since <= point.seq
        )
        return EarlierGroups(origin=origin, groups=remaining, gone=gone)

    def _as_of(self, point: BackupState) -> GroupTable:
        if point.seq not in self._groups:
            groups = self.snapshot(point).groups
            cut = choose_cut(self.backup.store, point, CutChoice.AUTO).used if self.by_cut else None
            _cache_value(self._groups, point.seq, groups if cut is None else apply_cut_offsets(groups, cut.groups))
        return self._groups[point.seq]

    def _last_alive(self, incarnation: TopicIncarnation, before: BackupState) -> BackupState | None:
        """The state of the newest commit with the topic. Usually the time in the deletion mark leads to the commit that
        marks the topic as deleted; commits of earlier versions need a search among all states."""
        marked = self._marked(incarnation, before)
        if marked is None:
            numbers = range(1, before.seq)
            marked = 1 + bisect_left(numbers, True, key=lambda seq: _is_dead(self.state(seq), incarnation))
        last = self.state(marked - 1)
        return last if last.is_live(incarnation) else None

    def _marked(self, incarnation: TopicIncarnation, before: BackupState) -> int | None:
        shape = before.topics[incarnation]
        near = before.history.latest_at(shape.deleted_ms) if shape.is_deleted else None
        for seq in (near.seq, near.seq + 1) if near is not None else ():
            stored = self.backup.log.get(seq)
            shapes = stored.commit.changes.topics if stored is not None else ()
            if any(changed_shape.incarnation == incarnation and changed_shape.is_deleted for changed_shape in shapes):
                return seq
        return None


def _cache_value(cache: dict[KeyT, ValueT], key: KeyT, value: ValueT) -> None:
    while len(cache) >= CACHED_MAX:
        del cache[next(iter(cache))]
    cache[key] = value


def _is_dead(state: BackupState, incarnation: TopicIncarnation) -> bool:
    return incarnation in state.topics and not state.is_live(incarnation)


def _only_on(group: GroupOffsets, incarnation: TopicIncarnation) -> GroupOffsets:
    topics = (topic for topic in group.topics if topic.topic == incarnation.topic)
    return replace(group, topics=tuple(topic for topic in topics if topic.topic_id in {"", incarnation.topic_id}))
