"""The plan of an export, as it is shown."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.log.range import TopicPartition
from offsite.services.archives.export_plan import ExportPlan
from offsite.services.archives.run_export import ExportTarget
from offsite.services.hole_report import HoleReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedPartition:
    """Offsets `[start, end)` that the export writes."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPlanReport:
    """`partitions` are those with something new."""

    format: str
    archive: str
    source: str
    tasks: int
    estimated_bytes: int
    partitions: tuple[ExportedPartition, ...]
    holes: tuple[HoleReport, ...]
    groups: int
    notes: tuple[str, ...]


def report_export(plan: ExportPlan, target: ExportTarget) -> ExportPlanReport:
    spans: dict[TopicPartition, tuple[int, int]] = {}
    for task in plan.tasks:
        key = task.range.topic_partition
        start, _ = spans.get(key, (task.range.start, 0))
        spans[key] = (start, task.range.end)
    return ExportPlanReport(
        format=target.format,
        archive=target.place,
        source=plan.source,
        tasks=len(plan.tasks),
        estimated_bytes=plan.estimated_bytes,
        partitions=tuple(
            ExportedPartition(topic=key.topic, partition=key.partition, start=spans[key][0], end=spans[key][1])
            for key in sorted(spans)
        ),
        holes=plan.holes,
        groups=len(plan.groups),
        notes=plan.notes,
    )
