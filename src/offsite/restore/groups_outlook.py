"""Where the groups of a restore will continue, reported before any write: how many, and which will not continue."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from offsite.groups.groups_as_of import EarlierCommit, GoneSince, groups_as_of
from offsite.groups.missing_records import (
    AvailableRecords,
    RefusedOffset,
    find_available_records,
    read_commit_cut,
)
from offsite.groups.plan import IDLE_STATES, SharePositions
from offsite.groups.run import of_another_kind
from offsite.groups.streams_groups import streams_warnings
from offsite.groups.translation import FROM_START
from offsite.kafka.groups import HAS_MEMBERS, GroupClient, GroupFailure
from offsite.kafka.protocol.groups import ListedGroup
from offsite.log.group_offsets import NO_OFFSET, SHARE, GroupOffsets, GroupTable
from offsite.log.range import PartitionId, TopicPartition
from offsite.model.errors import OffsiteError
from offsite.model.names import amount, named
from offsite.model.selection import ALL_GROUPS, GroupPatterns
from offsite.points.restore_point import FixedPoint, PointRequest
from offsite.repository.backup import Backup
from offsite.repository.restores.record import RestoreRecord
from offsite.repository.snapshots.group_snapshot import read_group_snapshot
from offsite.repository.state import BackupState
from offsite.restore.write.plan import RestorePlan

_PARTIAL = 3
_NAMED_MAX = 12
"""Groups named in one sentence."""


class GroupVerdict(StrEnum):
    """The outlook of a group. The first true verdict counts."""

    NOT_SET = "not set"
    """The target does not set it, or has a group with members or of another kind with its name."""
    CANNOT_GO_ON = "cannot go on"
    """Not set: the group would skip missing records, or repeat work."""
    IN_PART = "in part"
    """Some offsets of the group are of partitions that are not restored, or not partition by partition."""
    NO_POSITION = "no position"
    """A share group without a position in some partitions: it begins there where the target's setting says."""
    READS_AGAIN = "reads again"
    """The group had read beyond the restored end, and is set to the end."""
    LOST_AT_SOURCE = "lost at the source"
    """The source had deleted the group's next records. The group continues at the next existing record."""
    DELIVERS_AGAIN = "delivers again"
    """A share group, at its positions: it delivers again what was in flight, done out of order, or done last."""
    GOES_ON = "goes on"
    """Exactly at its offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClampedOffset:
    """An offset of a group that is moved back from `offset` to `end`, the restored end of the partition."""

    topic: str
    partition: int
    offset: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeseenGroup:
    """One group. `offsets`: number of its offsets on restored topics, `left_out` of them in partitions not restored one
    by one; `unread`: offsets between the remaining ones and the ends, records and gaps. `behind`: number of offsets
    that continue at the next record, because the source had deleted earlier records. `refused`: why the group is not
    set at all. `share_positions`: of a share group that is set, by topic and offset of the source."""

    group: str
    kind: str
    verdict: GroupVerdict
    topics: int
    offsets: int
    left_out: int
    unread: int
    exactly_once: bool
    behind: int
    clamped: tuple[ClampedOffset, ...]
    refused: tuple[RefusedOffset, ...]
    share_positions: tuple[SharePositions, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOutlook:
    """All groups of a restore that have read restored topics, by name. `verdicts`: numbers of groups by verdict.
    `exit_code`: the exit code that the restore will have because of groups, as far as known before. `origin`: snapshot
    of the commit, or history. `earlier`: offsets of an earlier commit. `gone`: groups that are gone from restored
    topics, and would be put in place if named in full. `unsettable`: share groups whose positions the target does not
    set, groups with members there, and groups whose names are those of groups of another kind there."""

    groups: tuple[ForeseenGroup, ...]
    verdicts: Mapping[str, int]
    exit_code: int
    origin: str
    notes: tuple[str, ...]
    earlier: tuple[EarlierCommit, ...] = ()
    gone: tuple[GoneSince, ...] = ()
    unsettable: tuple[GroupFailure, ...] = ()


def foresee_groups(
    backup: Backup, record: RestoreRecord, plan: RestorePlan, patterns: GroupPatterns, client: GroupClient
) -> GroupOutlook | None:
    """The groups that a restore will put in place; None when no groups are requested. `client`: groups of the target.
    Raises `NoSuchRestorePoint` for an unknown group named in full, `DamagedObject`, the errors of `client`."""
    if not patterns:
        return None
    topics = {topic.source.topic: topic.source.topic_id for topic in plan.topics}
    fixed = FixedPoint.of_restore(record)
    as_of = groups_as_of(backup, PointRequest(), fixed, patterns=patterns, topic_ids=topics)
    ends = {partition.chain.source: partition.chain.end for partition in plan.partitions}
    available = find_available_records(
        as_of.point, ends, read_commit_cut(backup.store, as_of.point), earlier=as_of.earlier
    )
    foreseen = (_foreseen(group, available, ends, topics) for group in as_of.groups.values())
    groups = tuple(group for group in foreseen if group.offsets)
    unsettable = _unsettable({group.group: as_of.groups[group.group] for group in groups}, client)
    left_alone = {failure.group for failure in unsettable}
    groups = tuple(_left_alone(group) if group.group in left_alone else group for group in groups)
    counts = {verdict.value: sum(group.verdict is verdict for group in groups) for verdict in GroupVerdict}
    return GroupOutlook(
        groups=groups,
        verdicts=counts,
        exit_code=_PARTIAL if counts[GroupVerdict.CANNOT_GO_ON] or as_of.unread or unsettable else 0,
        origin=as_of.origin,
        notes=(*as_of.notes, *streams_warnings((as_of.groups[group.group] for group in groups), client)),
        earlier=as_of.earlier_commits,
        gone=as_of.gone,
        unsettable=unsettable,
    )


def _unsettable(groups: GroupTable, client: GroupClient) -> tuple[GroupFailure, ...]:
    if not groups:
        return ()
    unsettable = client.unsettable([name for name, group in groups.items() if group.kind == SHARE])
    present = [listed for listed in client.list() if listed.group in groups]
    failures = (*_with_members(present), *unsettable, *of_another_kind(groups, present))
    return tuple({failure.group: failure for failure in failures}.values())


def _with_members(present: Iterable[ListedGroup]) -> Iterator[GroupFailure]:
    """The groups that their coordinators are going to refuse, unless their members stop before."""
    for listed in present:
        if listed.state not in IDLE_STATES:
            yield GroupFailure(group=listed.group, error="NON_EMPTY_GROUP", message=HAS_MEMBERS, kind=listed.kind)


def _left_alone(group: ForeseenGroup) -> ForeseenGroup:
    return replace(group, verdict=GroupVerdict.NOT_SET, share_positions=(), clamped=())


def unrequested_share_groups(
    backup: Backup, point: BackupState, topics: Container[str], patterns: GroupPatterns
) -> str:
    """The sentence about share groups on restored `topics` that are not among the requested ones, `patterns`; empty
    without such a group."""
    if point.groups is None or patterns == ALL_GROUPS:
        return ""
    try:
        groups = read_group_snapshot(backup.store, point.groups).groups.values()
    except OffsiteError as error:
        return f"nobody can tell whether the backup has share groups on these topics: {error.message}"
    share = {
        group.group for group in groups if group.kind == SHARE and any(topic.topic in topics for topic in group.topics)
    }
    names = sorted(share.difference(patterns.select(share)))
    if not names:
        return ""
    return (
        f"{amount(len(names), 'share group')} not requested ({named(names, most=_NAMED_MAX)}): a share group without "
        "positions begins at the end, unless its settings on the target say otherwise, and then restored records are "
        "never delivered to it; add --groups all"
    )


def _foreseen(
    group: GroupOffsets, available: AvailableRecords, ends: Mapping[PartitionId, int], topics: Mapping[str, str]
) -> ForeseenGroup:
    rows: list[tuple[PartitionId, int]] = []
    without: list[PartitionId] = []
    left_out: list[TopicPartition] = []
    for topic in group.topics:
        for partition, offset in topic.by_partition().items() if topic.topic in topics else ():
            where = available.partition_id(topic.topic, partition)
            if where is None:
                left_out.append(TopicPartition(topic=topic.topic, partition=partition))
            elif offset == NO_OFFSET and group.reset != FROM_START:
                without.append(where)
            else:
                rows.append((where, available.begins[where] if offset == NO_OFFSET else offset))
    refused = tuple(
        RefusedOffset(group=group.group, topic=where.topic, partition=where.partition, offset=offset, why=why)
        for where, offset in rows
        if (why := available.why_not(group.group, where, offset, end=ends[where]))
    )
    clamped = tuple(
        ClampedOffset(topic=where.topic, partition=where.partition, offset=offset, end=ends[where])
        for where, offset in rows
        if offset > ends[where] and not refused
    )
    behind = sum(available.is_behind(group.group, where, offset) for where, offset in rows)
    by_verdict = {
        GroupVerdict.CANNOT_GO_ON: bool(refused),
        GroupVerdict.IN_PART: bool(left_out),
        GroupVerdict.NO_POSITION: bool(without),
        GroupVerdict.READS_AGAIN: bool(clamped),
        GroupVerdict.LOST_AT_SOURCE: bool(behind),
        GroupVerdict.DELIVERS_AGAIN: group.kind == SHARE,
        GroupVerdict.GOES_ON: True,
    }
    return ForeseenGroup(
        group=group.group,
        kind=group.kind,
        verdict=next(verdict for verdict, is_true in by_verdict.items() if is_true),
        topics=len({where.topic for where in (*without, *(where for where, _ in rows))}),
        offsets=len(rows) + len(without) + len(left_out),
        left_out=len(left_out),
        unread=sum(max(0, ends[where] - offset) for where, offset in rows),
        exactly_once=group.group in available.exactly_once,
        behind=behind,
        clamped=clamped,
        refused=refused,
        share_positions=tuple(
            _share_positions(group, rows, [*(where.topic_partition for where in without), *left_out], ends)
        )
        if group.kind == SHARE and not refused
        else (),
    )


def _share_positions(
    group: GroupOffsets,
    rows: Sequence[tuple[PartitionId, int]],
    without: Sequence[TopicPartition],
    ends: Mapping[PartitionId, int],
) -> Iterator[SharePositions]:
    for name in sorted({where.topic for where in without} | {where.topic for where, _ in rows}):
        yield SharePositions(
            group=group.group,
            topic=name,
            positions={where.partition: min(offset, ends[where]) for where, offset in rows if where.topic == name},
            without=tuple(sorted(where.partition for where in without if where.topic == name)),
            reset=group.reset,
        )
