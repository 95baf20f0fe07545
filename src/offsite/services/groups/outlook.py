"""Where the groups of a restore will go on, said before anything is written: how many, and which will not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from offsite.copy.restore.plan import RestorePlan
from offsite.copy.restore_point import FixedPoint, PointRequest
from offsite.log.groups.offsets import GroupOffsets
from offsite.model.selections.selection import GroupPatterns
from offsite.repository.backup import Backup
from offsite.repository.commit import PartitionId
from offsite.repository.restores.record import RestoreRecord
from offsite.services.groups.missing_records import HeldRecords, RefusedOffset, commit_cut, held_records
from offsite.services.groups.source import groups_as_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeseenGroup:
    """One group on the restored topics. `offsets`: so many it has there; `unread`: offsets between them and the ends,
    records and others. `refused` will not be set, `clamped` go back to the restored end, `behind` go on at the next
    record that there is, because the source had deleted the ones before it unread."""

    group: str
    kind: str
    topics: int
    offsets: int
    unread: int
    exactly_once: bool
    clamped: int
    behind: int
    refused: tuple[RefusedOffset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOutlook:
    """All groups of a restore that have read what is restored. `origin`: snapshot of the commit, or history."""

    groups: tuple[ForeseenGroup, ...]
    origin: str
    notes: tuple[str, ...]

    @property
    def refused(self) -> tuple[RefusedOffset, ...]:
        return tuple(refused for group in self.groups for refused in group.refused)


def foresee_groups(
    backup: Backup, record: RestoreRecord, plan: RestorePlan, patterns: GroupPatterns
) -> GroupOutlook | None:
    """The groups that a restore will put in place; None where none are asked for. Raises `NoSuchRestorePoint` for a
    group named in full that is not there, `DamagedObject`."""
    if not patterns:
        return None
    as_of = groups_as_of(backup, PointRequest(), FixedPoint.of_restore(record)).only(patterns)
    as_of = as_of.of_incarnations({topic.source.topic: topic.source.topic_id for topic in plan.topics})
    ends = {chain.source: chain.end for chain in plan.all_chains}
    held = held_records(as_of.point, ends, commit_cut(backup.store, as_of.point))
    foreseen = (_foreseen(group, held, ends) for group in as_of.groups.values())
    return GroupOutlook(
        groups=tuple(group for group in foreseen if group.offsets), origin=as_of.origin, notes=as_of.notes
    )


def _foreseen(group: GroupOffsets, held: HeldRecords, ends: Mapping[PartitionId, int]) -> ForeseenGroup:
    rows = list(_rows(group, held))
    refused = [
        RefusedOffset(group=group.group, topic=where.topic, partition=where.partition, offset=offset, why=why)
        for where, offset in rows
        if (why := held.why_not(group.group, where, offset, end=ends[where]))
    ]
    taken = {(each.topic, each.partition) for each in refused}
    return ForeseenGroup(
        group=group.group,
        kind=group.kind,
        topics=len({where.topic for where, _ in rows}),
        offsets=len(rows),
        unread=sum(max(0, ends[where] - offset) for where, offset in rows),
        exactly_once=group.group in held.exactly_once,
        clamped=sum(offset > ends[where] and (where.topic, where.partition) not in taken for where, offset in rows),
        behind=sum(held.is_behind(group.group, where, offset) for where, offset in rows),
        refused=tuple(refused),
    )


def _rows(group: GroupOffsets, held: HeldRecords) -> Iterator[tuple[PartitionId, int]]:
    """The group's offsets on restored partitions."""
    for topic in group.topics:
        for partition, offset in topic.by_partition().items():
            if (where := held.partition_id(topic.topic, partition)) is not None:
                yield where, offset
