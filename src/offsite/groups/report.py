"""Groups for people and scripts: the groups of a backup, and the effect of a change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from offsite.groups.groups_as_of import SNAPSHOT, EarlierCommit, GoneSince, GroupsAsOf, groups_as_of
from offsite.groups.missing_records import RefusedOffset
from offsite.groups.plan import GroupCounts, GroupMove, PlannedOffset, ReadAgain, SharePositions
from offsite.groups.run import PlannedGroups
from offsite.kafka.groups import GroupFailure
from offsite.log.group_offsets import NO_OFFSET, SHARE, GroupOffsets, GroupOnTopic, TopicOffsets
from offsite.log.range import PartitionId
from offsite.model.selection import GroupPatterns
from offsite.points.restore_point import PointRequest
from offsite.repository.backup import Backup
from offsite.repository.state import BackupState


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTopic:
    """One group on one topic: `offsets` and `metadata` (if any) by partition. `lag`: number of records between the
    offsets and the end of the backup; None as of a time that is not a commit's. `commit`: the earlier commit of the
    offsets, because the topic was deleted since or the group is gone; 0 for the commit of all other offsets."""

    topic: str
    offsets: Mapping[int, int]
    metadata: Mapping[int, str]
    lag: int | None
    commit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGroup:
    """One group. `kind` is classic, consumer, share, streams, or empty when unknown; `state` as named by the source's
    coordinator. The offsets of a share group are its positions, -1 in a partition without one; `reset` tells where it
    begins there."""

    group: str
    kind: str
    state: str
    topics: tuple[ShownTopic, ...]
    reset: str = ""

    @property
    def share_positions(self) -> tuple[SharePositions, ...]:
        """From where a share group would deliver again; none of other groups."""
        return tuple(self._positions(topic) for topic in self.topics) if self.kind == SHARE else ()

    def _positions(self, topic: ShownTopic) -> SharePositions:
        return SharePositions(
            group=self.group,
            topic=topic.topic,
            positions={partition: offset for partition, offset in topic.offsets.items() if offset != NO_OFFSET},
            without=tuple(partition for partition, offset in topic.offsets.items() if offset == NO_OFFSET),
            reset=self.reset,
        )

    @property
    def lag(self) -> int | None:
        lags = [topic.lag for topic in self.topics if topic.lag is not None]
        return sum(lags) if lags else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGroups:
    """The groups of a backup. `origin`: snapshot (of the commit) or history (of the time). `earlier`: offsets of an
    earlier commit; `gone`: groups that are gone, shown only when named in full."""

    backup: str
    commit: int
    origin: str
    groups: tuple[ShownGroup, ...]
    notes: tuple[str, ...]
    earlier: tuple[EarlierCommit, ...] = ()
    gone: tuple[GoneSince, ...] = ()

    def without_metadata(self) -> ShownGroups:
        """The same without metadata, for readers without a right to records: applications write any content into
        metadata."""
        groups = (
            replace(group, topics=tuple(replace(topic, metadata={}) for topic in group.topics)) for group in self.groups
        )
        return replace(self, groups=tuple(groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """One group of a plan. `active`: the group has members on the target, and its coordinator is going to refuse the
    change."""

    group: str
    kind: str
    active: bool
    offsets: tuple[PlannedOffset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlanReport:
    """A plan, row by row. `refused`: the offsets that will not be set, with the reasons; the rest as in
    `AppliedGroups`."""

    backup: str
    commit: int
    origin: str
    restore: str
    cluster_id: str
    groups: tuple[PlannedGroup, ...]
    counts: GroupCounts
    absent_topics: tuple[str, ...]
    notes: tuple[str, ...]
    failed: tuple[GroupFailure, ...]
    earlier: tuple[EarlierCommit, ...] = ()
    gone: tuple[GoneSince, ...] = ()
    share_positions: tuple[SharePositions, ...] = ()
    reads_again: tuple[ReadAgain, ...] = ()
    untold: tuple[GroupOnTopic, ...] = ()
    refused: tuple[RefusedOffset, ...] = ()


def show_groups(
    backup: Backup, *, groups: GroupPatterns, commit: int | None = None, at: str | None = None
) -> ShownGroups:
    """The groups known to the backup. Raises `NoSuchRestorePoint`, `BadOption`."""
    as_of = groups_as_of(backup, PointRequest(commit=commit, at=at), patterns=groups)
    ends = as_of.point if as_of.origin == SNAPSHOT else None
    return ShownGroups(
        backup=backup.descriptor.name,
        commit=as_of.point.seq,
        origin=as_of.origin,
        groups=tuple(_shown(group, ends, as_of) for group in as_of.groups.values()),
        notes=as_of.notes,
        earlier=as_of.earlier_commits,
        gone=as_of.gone,
    )


def report_groups(planned: PlannedGroups) -> GroupPlanReport:
    """The changes of `planned`, row by row."""
    return GroupPlanReport(
        backup=planned.backup.descriptor.name,
        commit=planned.change.commit,
        origin=planned.as_of.origin,
        restore=planned.change.restore,
        cluster_id=planned.change.cluster_id,
        groups=tuple(_planned(group) for group in planned.plan.groups),
        counts=planned.plan.counts(),
        absent_topics=planned.plan.absent_topics,
        notes=planned.as_of.notes,
        failed=planned.unreadable,
        earlier=planned.as_of.earlier_commits,
        gone=planned.as_of.gone,
        share_positions=planned.plan.share_positions(),
        reads_again=planned.plan.reads_again(),
        untold=planned.plan.untold(),
        refused=planned.plan.refused,
    )


def _shown(group: GroupOffsets, ends: BackupState | None, as_of: GroupsAsOf) -> ShownGroup:
    topics = tuple(_shown_topic(topic, ends, as_of.earlier_commit(group.group, topic)) for topic in group.topics)
    return ShownGroup(group=group.group, kind=group.kind, state=group.state, topics=topics, reset=group.reset)


def _shown_topic(topic: TopicOffsets, ends: BackupState | None, commit: int) -> ShownTopic:
    return ShownTopic(
        topic=topic.topic,
        offsets=topic.by_partition(),
        metadata={row.partition: row.metadata for row in topic if row.metadata},
        lag=None if ends is None or NO_OFFSET in topic.offsets else sum(_lags(topic, ends)),
        commit=commit,
    )


def _lags(topic: TopicOffsets, ends: BackupState) -> Iterator[int]:
    for partition, offset in zip(topic.partitions, topic.offsets, strict=True):
        key = PartitionId(topic=topic.topic, topic_id=topic.topic_id, partition=partition)
        position = ends.positions.get(key)
        yield max(0, position.end - offset) if position else 0


def _planned(group: GroupMove) -> PlannedGroup:
    offsets = tuple(offset for topic in group.topics for offset in topic.rows())
    return PlannedGroup(group=group.group, kind=group.kind, active=group.is_active, offsets=offsets)
