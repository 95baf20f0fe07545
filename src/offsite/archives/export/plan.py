"""Plans an export from a restore point of a backup, before anything is written.

An archive says how far every partition reaches; an export continues there, no matter which process wrote the archive.
Offsets due next and missing at the source become a hole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from offsite.archives.archive import ArchiveTopic, ArchiveWriter
from offsite.archives.export.same_topic import backup_record_reader, find_other_topics
from offsite.archives.export.task import ExportTask
from offsite.groups.groups_as_of import SNAPSHOT, GroupsAsOf, groups_as_of
from offsite.log.group_offsets import SHARE, GroupOffsets, GroupTable, restrict_to_topics
from offsite.log.range import LogRange, PartitionId, TopicPartition
from offsite.model.errors import TopicReplaced
from offsite.model.names import amount, named
from offsite.model.selection import ALL_GROUPS, GroupPatterns
from offsite.model.units import format_time
from offsite.points.incarnations import incarnation_notes
from offsite.points.point_in_time import PartitionChain, PointInTime, SelectedChains, select_chains
from offsite.points.restore_point import FixedPoint, PointRequest, find_point
from offsite.reports.point_report import HoleReport, hole_reports
from offsite.repository.backup import Backup
from offsite.repository.commit import TopicShape
from offsite.repository.partition_history import Branch
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState

Ends = Mapping[TopicPartition, int]

_NAMED_MAX = 12
"""Share groups named in a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """The request of an export. `point`: restore point, topics, partitions and isolation; for a cluster only the last
    three count. `groups`: consumer groups whose offsets are exported."""

    point: PointRequest
    groups: GroupPatterns = ALL_GROUPS


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPlan:
    """A decided export; nothing is written yet. `source`: name for people. `tasks`: rising within a partition. `ends`:
    the current ends of the archive. `holes`: new holes. `sick`: left-out partitions, because reading fails now, or
    because the archive must not be continued."""

    source: str
    topics: tuple[ArchiveTopic, ...]
    tasks: tuple[ExportTask, ...]
    holes: tuple[HoleReport, ...]
    groups: Mapping[str, GroupOffsets]
    ends: Ends
    notes: tuple[str, ...]
    sick: tuple[str, ...] = ()

    @property
    def estimated_bytes(self) -> int:
        return sum(task.estimated_bytes for task in self.tasks)


def plan_export(
    backup: Backup, writer: ArchiveWriter, request: ExportRequest, *, same: set[PartitionId] | None = None
) -> ExportPlan:
    """Plan `request`. Writes nothing, but lets the archive repair leftovers of a crash (see `ArchiveWriter.ends`).
    `same`: partitions whose archive end was compared by earlier plans of the process.

    Raises `NoSuchRestorePoint`, `NoSuchTopic`, `BadOption`, `DamagedArchive`, `TopicReplaced`.
    """
    point = find_point(backup, request.point)
    selected = select_chains(point, request.point.selection).copyable()
    ends = writer.ends()
    topics = tuple(archive_topic(topic.shape) for topic in selected.topics)
    groups = _groups(backup, point.state, {topic.topic: topic.topic_id for topic in topics}, request.groups)
    committing, left_out = committing_groups(groups.groups)
    check_same_topics(writer, topics)
    conflicts = (*_of_two_histories(point.state.branches, ends), *_of_those_before(point, writer.topic_ids(), ends))
    strange = {
        partition: why
        for partition, why in conflicts
        if request.point.partitions.includes(partition.topic, partition.partition)
    }
    chains = [partition_chain for partition_chain in selected.chains if partition_chain.source not in strange]
    remade = {incarnation.topic for incarnation in point.incarnations}
    going_on = {
        partition_chain.source: backup_record_reader(partition_chain, backup.store)
        for partition_chain in chains
        if 0 < ends.get(partition_chain.source.topic_partition, 0) < partition_chain.end
    }
    strange |= find_other_topics(going_on, writer, remade=remade, same=set() if same is None else same)
    chains = [partition_chain for partition_chain in chains if partition_chain.source not in strange]
    tasks = [list(_tasks(partition_chain, ends, divides=writer.divides)) for partition_chain in chains]
    return ExportPlan(
        source=f"backup {point.state.backup} as of commit {point.state.seq}",
        topics=topics,
        tasks=interleave_tasks(tasks),
        holes=tuple(_holes(selected, ends)),
        groups=committing,
        ends=ends,
        notes=(
            *_notes(selected, point.until_ms),
            *incarnation_notes(point.incarnations_of(selected.names)),
            *groups.notes,
            *left_out,
        ),
        sick=tuple(why for partition, why in sorted(strange.items()) if partition.topic in selected.names),
    )


def archive_topic(shape: TopicShape) -> ArchiveTopic:
    return ArchiveTopic(
        topic=shape.topic,
        partitions=shape.partitions,
        replication_factor=shape.replication_factor,
        configs=shape.configs,
        topic_id=shape.topic_id,
    )


def check_same_topics(writer: ArchiveWriter, topics: Iterable[ArchiveTopic]) -> None:
    """Check that no topic was deleted and recreated: a recreated topic does not continue the old topic. Raises
    `TopicReplaced`."""
    recorded_ids = writer.topic_ids()
    for topic in topics:
        if topic.topic_id and recorded_ids.get(topic.topic, topic.topic_id) != topic.topic_id:
            raise TopicReplaced(
                f"topic {topic.topic} was deleted and created again after its export into this archive",
                hint="export it into another place",
            )


def interleave_tasks(tasks: Iterable[Sequence[ExportTask]]) -> tuple[ExportTask, ...]:
    """Interleave the tasks of all partitions, so that a share of the tasks is a share of every partition."""
    return tuple(task for task in chain.from_iterable(zip_longest(*tasks)) if task is not None)


def _tasks(partition: PartitionChain, ends: Ends, *, divides: bool) -> Iterator[ExportTask]:
    """Yield a task per segment, for parallel export; a transaction across segments chains the segments together."""
    archived_end = ends.get(partition.source.topic_partition, 0)
    needed = [s for s in partition.segments if s.next_offset > archived_end and s.start < partition.end]
    if not needed or archived_end >= partition.end:
        return
    is_chain = not divides or any(segment.has_transactions for segment in needed)
    start = max(archived_end, needed[0].start)
    for group in [needed] if is_chain else [[segment] for segment in needed]:
        is_last = group[-1] is needed[-1]
        end = partition.end if is_last else min(partition.end, group[-1].next_offset)
        if start < end:
            yield _task(partition, group, start, end)
        start = max(start, end)


def _task(partition: PartitionChain, segments: Sequence[Segment], start: int, end: int) -> ExportTask:
    source = partition.source
    return ExportTask(
        range=LogRange(topic=source.topic, partition=source.partition, start=start, end=end),
        estimated_bytes=sum(segment.raw_bytes for segment in segments),
        chain=replace(partition, segments=tuple(segments)),
    )


def _of_two_histories(branches: Iterable[Branch], ends: Ends) -> Iterator[tuple[PartitionId, str]]:
    """Yield partitions that an export must not continue, with the reason: the log was cut back, and the archive ends
    where the records may come from the old history. The archive does not show the history. An archive that ends behind
    the old history, or before the cut, holds no record missing from the new history."""
    for branch in branches:
        reached = ends.get(branch.partition_id.topic_partition, 0)
        if branch.at < reached <= branch.end:
            why = f"the source's log was cut back to offset {branch.at} (found by commit {branch.commit})"
            advice = (
                f"the archive ends at offset {reached} and may have records from before that; export the topic "
                "into another place"
            )
            yield branch.partition_id, f"{branch.partition_id}: {why}, and {advice}"


def _of_those_before(point: PointInTime, ids: Mapping[str, str], ends: Ends) -> Iterator[tuple[PartitionId, str]]:
    """Yield partitions of recreated topics that end before the archive does, for archives without topic ids (`ids`):
    the archived records belong to the former topic."""
    for remade in point.incarnations:
        if not remade.taken or remade.topic in ids:
            continue
        new_ends = {partition_range.partition: partition_range.end for partition_range in remade.ranges}
        for where, reached in ends.items():
            if where.topic == remade.topic and reached > new_ends.get(where.partition, 0):
                why = (
                    f"topic {remade.topic} was deleted and created again, and ends at offset "
                    f"{new_ends.get(where.partition, 0)}"
                )
                advice = (
                    f"the archive ends at offset {reached} and has records of the old topic; export the new topic "
                    "into another place"
                )
                source = PartitionId(topic=remade.topic, topic_id=remade.topic_id, partition=where.partition)
                yield source, f"{source}: {why}; {advice}"


def _holes(selected: SelectedChains, ends: Ends) -> Iterator[HoleReport]:
    """Yield the holes behind the archive's end: the backup's own holes, and records dropped since."""
    for hole in hole_reports(selected.holes):
        key = TopicPartition(topic=hole.topic, partition=hole.partition)
        if hole.start >= ends.get(key, 0):
            yield hole
    for partition in selected.chains:
        source, first = partition.source, partition.segments[0].start
        archived_end = ends.get(source.topic_partition)
        if archived_end is not None and archived_end < first:
            yield HoleReport(
                topic=source.topic, partition=source.partition, start=archived_end, end=first, reason="retention"
            )


def _groups(backup: Backup, state: BackupState, ids: Mapping[str, str], patterns: GroupPatterns) -> GroupsAsOf:
    """Return the groups' offsets on the topics with the ids, by name."""
    if not patterns or state.groups is None:
        return GroupsAsOf(groups={}, point=state, origin=SNAPSHOT)
    group_offsets = groups_as_of(backup, PointRequest(), FixedPoint(commit=state.seq), topic_ids=ids)
    for error in group_offsets.unread.values():
        raise error  # an archive that has them already would lose them
    chosen = {name: group_offsets.groups[name] for name in patterns.select(group_offsets.groups)}  # one may come later
    return replace(group_offsets, groups=restrict_to_topics(chosen, ids))


def committing_groups(groups: GroupTable) -> tuple[dict[str, GroupOffsets], tuple[str, ...]]:
    """The groups of an archive, and a note on share groups: archives have committed offsets, and an import would make
    consumer groups of positions."""
    share = [name for name, group in groups.items() if group.kind == SHARE]
    note = f"{amount(len(share), 'share group')} left out, because archives cannot hold positions: "
    notes = (f"{note}{named(share, most=_NAMED_MAX)}",) if share else ()
    return {name: group for name, group in groups.items() if group.kind != SHARE}, notes


def _notes(selected: SelectedChains, until_ms: int | None) -> Iterator[str]:
    for topic, reason in selected.skipped:
        yield f"topic {topic} is left out: {reason}"
    if until_ms is not None:
        yield (
            f"records dated after {format_time(until_ms)} are left out permanently: a later export continues after them"
        )
