"""Plans an export straight from a cluster: the current topics, as a plan like any other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from offsite.archives.archive import ArchiveWriter
from offsite.archives.export.plan import (
    Ends,
    ExportPlan,
    ExportRequest,
    archive_topic,
    check_same_topics,
    committing_groups,
    interleave_tasks,
)
from offsite.archives.export.same_topic import cluster_record_reader, find_other_topics
from offsite.archives.export.task import ClusterRecordSource, ExportTask
from offsite.backup.copy_plan import CopyTask, PartitionBounds, SickPartition, plan_copy
from offsite.backup.source import read_source
from offsite.groups.snapshots import read_groups
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.protocol.logs import READ_COMMITTED
from offsite.log.group_offsets import restrict_to_topics
from offsite.log.range import PartitionId, TopicPartition
from offsite.model.errors import SourceTruncated
from offsite.model.options import MissingTopics
from offsite.reports.point_report import HoleReport


def plan_cluster_export(  # noqa: PLR0913  # all by keyword but what is read, and where to
    admin: ClusterAdmin,
    writer: ArchiveWriter,
    request: ExportRequest,
    *,
    slots: int,
    source_records: ClusterRecordSource,
    same: set[PartitionId],
) -> ExportPlan:
    """Plan the export, like `plan_export`. With read_committed, partitions end at the last stable offset. `same`: as in
    `plan_export`.

    Raises `NoSuchTopic`, `SourceTruncated` (recreated, or cut back), `TopicReplaced`, `DamagedArchive`, and the
    cluster's errors.
    """
    fetched = read_groups(admin.groups, request.groups)  # before the end offsets: no commit lies beyond them
    source = read_source(admin, request.point.selection, missing_topics=MissingTopics.FAIL)
    for shape in source.shapes:
        request.point.partitions.check_exists(shape.topic, shape.partitions)
    ends = writer.ends()
    topics = tuple(map(archive_topic, source.shapes))
    check_same_topics(writer, topics)
    chosen = [b for b in source.bounds if request.point.partitions.includes(b.topic, b.partition)]
    bounds = list(_to_stable(admin, chosen, ends)) if request.point.read_committed else chosen
    positions = {b.partition_id: ends[_key(b)] for b in bounds if _key(b) in ends}
    copy = plan_copy(bounds, positions, slots=slots)
    if copy.sick and len(copy.sick) == len(bounds):
        raise _cut_back(copy.sick[0])
    ids = {shape.topic: shape.topic_id for shape in source.shapes}
    tasks = _tasks(copy.tasks, {_key(b): b.end for b in source.bounds}, divides=writer.divides)
    going_on = {
        PartitionId(topic=b.topic, topic_id=ids[b.topic], partition=b.partition): cluster_record_reader(
            source_records, tasks[_key(b)][0]
        )
        for b in bounds
        if _key(b) in tasks and b.log_start < ends.get(_key(b), 0)
    }
    strange = {
        partition.topic_partition: why for partition, why in find_other_topics(going_on, writer, remade=(), same=same)
    }
    sick = (f"{s.topic}/{s.partition}: {s.error.message}" for s in (*source.sick, *copy.sick))
    failed = fetched.failed if fetched else ()
    groups, left_out = committing_groups(restrict_to_topics(fetched.groups, ids) if fetched else {})
    return ExportPlan(
        source=f"cluster {source.cluster_id}",
        topics=topics,
        tasks=interleave_tasks([partition_tasks for key, partition_tasks in tasks.items() if key not in strange]),
        holes=tuple(
            HoleReport(topic=h.topic, partition=h.partition, start=h.start, end=h.end, reason=h.reason)
            for h in copy.holes
        ),
        groups=groups,
        ends=ends,
        notes=(*(f"group {failure.group} was not read: {failure.message}" for failure in failed), *left_out),
        sick=(*sick, *(strange[key] for key in sorted(strange))),
    )


def _cut_back(sick: SickPartition) -> SourceTruncated:
    return SourceTruncated(sick.error.message, hint="if the topic was created again, export it into another place")


def _to_stable(admin: ClusterAdmin, bounds: Sequence[PartitionBounds], ends: Ends) -> Iterator[PartitionBounds]:
    """Yield `bounds` up to the last stable offsets; an archive that reaches further needs nothing."""
    stable = admin.end_offsets([_key(bound) for bound in bounds], isolation=READ_COMMITTED)
    for bound in bounds:
        archived_end = min(bound.end, ends.get(_key(bound), 0))
        yield replace(bound, end=max(bound.log_start, archived_end, stable[_key(bound)]))


def _tasks(
    tasks: Sequence[CopyTask], high_watermarks: Ends, *, divides: bool
) -> dict[TopicPartition, list[ExportTask]]:
    """Return the tasks of every partition, or a single joined task per partition."""
    by_partition = groupby(sorted(tasks, key=lambda task: task.range), key=lambda task: task.range.topic_partition)
    export_tasks = {
        key: [
            ExportTask(
                range=task.range,
                estimated_bytes=task.estimated_bytes,
                topic_id=task.topic_id,
                high_watermark=high_watermarks[key],
                leader_epoch=task.leader_epoch,
                was_compacted=task.was_compacted,
            )
            for task in group
        ]
        for key, group in by_partition
    }
    return export_tasks if divides else {key: [_joined(group)] for key, group in export_tasks.items()}


def _joined(tasks: Sequence[ExportTask]) -> ExportTask:
    return replace(
        tasks[0],
        range=replace(tasks[0].range, end=tasks[-1].range.end),
        estimated_bytes=sum(task.estimated_bytes for task in tasks),
    )


def _key(bounds: PartitionBounds) -> TopicPartition:
    return TopicPartition(topic=bounds.topic, partition=bounds.partition)
