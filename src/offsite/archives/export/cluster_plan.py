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
    high_watermarks = {_key(bound): bound.end for bound in source.bounds}
    ids = {shape.topic: shape.topic_id for shape in source.shapes}
    tasks = {
        partition_tasks[0].range.topic_partition: partition_tasks
        for partition_tasks in _tasks(copy.tasks, high_watermarks, divides=writer.divides)
    }
    starts = {_key(b): b.log_start for b in bounds}
    going_on = {
        PartitionId(topic=key.topic, topic_id=ids[key.topic], partition=key.partition): cluster_record_reader(
            source_records, partition_tasks[0]
        )
        for key, partition_tasks in tasks.items()
        if starts[key] < ends.get(key, 0)
    }
    strange = {
        partition.topic_partition: why for partition, why in find_other_topics(going_on, writer, remade=(), same=same)
    }
    return ExportPlan(
        source=f"cluster {source.cluster_id}",
        topics=topics,
        tasks=interleave_tasks([partition_tasks for key, partition_tasks in tasks.items() if key not in strange]),
        holes=tuple(
            HoleReport(topic=h.topic, partition=h.partition, start=h.start, end=h.end, reason=h.reason)
            for h in copy.holes
        ),
        groups=restrict_to_topics(fetched.groups, ids) if fetched else {},
        ends=ends,
        notes=tuple(f"group {failure.group} was not read: {failure.message}" for failure in fetched.failed)
        if fetched
        else (),
        sick=(
            *(
                f"{sick_partition.topic}/{sick_partition.partition}: {sick_partition.error.message}"
                for sick_partition in (*source.sick, *copy.sick)
            ),
            *(strange[key] for key in sorted(strange)),
        ),
    )


def _cut_back(sick: SickPartition) -> SourceTruncated:
    return SourceTruncated(sick.error.message, hint="if the topic was created again, export it into another place")


def _to_stable(admin: ClusterAdmin, bounds: Sequence[PartitionBounds], ends: Ends) -> Iterator[PartitionBounds]:
    """Yield `bounds` up to the last stable offsets; an archive that reaches further needs nothing."""
    stable = admin.end_offsets([_key(bound) for bound in bounds], isolation=READ_COMMITTED)
    for bound in bounds:
        archived_end = min(bound.end, ends.get(_key(bound), 0))
        yield replace(bound, end=max(bound.log_start, archived_end, stable[_key(bound)]))


def _tasks(tasks: Sequence[CopyTask], high_watermarks: Ends, *, divides: bool) -> Iterator[list[ExportTask]]:
    """Yield the tasks of every partition, or a single joined task per partition."""
    ordered = sorted(tasks, key=lambda task: task.range)
    for key, group in groupby(ordered, key=lambda task: task.range.topic_partition):
        export_tasks = [
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
        yield export_tasks if divides else [_joined(export_tasks)]


def _joined(tasks: Sequence[ExportTask]) -> ExportTask:
    return replace(
        tasks[0],
        range=replace(tasks[0].range, end=tasks[-1].range.end),
        estimated_bytes=sum(task.estimated_bytes for task in tasks),
    )


def _key(bounds: PartitionBounds) -> TopicPartition:
    return TopicPartition(topic=bounds.topic, partition=bounds.partition)
