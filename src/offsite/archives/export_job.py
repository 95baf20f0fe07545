"""A repeatable export: planned and run once, or for as long as the source grows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Event

from offsite.archives.cluster_export import plan_cluster_export
from offsite.archives.export import BackupRecordSource, ClusterRecordSource, RecordSource
from offsite.archives.export_plan import ExportPlan, ExportRequest, plan_export
from offsite.archives.formats import WriteOptions, open_writer
from offsite.archives.run_export import ExportResult, ExportTarget, run_export
from offsite.backup.outages import Outages
from offsite.engine.runner import OnProgress, Runner
from offsite.kafka.cluster import Cluster
from offsite.log.range import TopicPartition
from offsite.model.errors import BadOption, OffsiteError
from offsite.reports.log_report import HoleReport
from offsite.repository.backup import Backup
from offsite.repository.commit import PartitionId
from offsite.repository.heads import check_to_read
from offsite.stores.open_store import open_archive_files

OnResult = Callable[[ExportResult], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportJob:
    """An export from a source into an archive. `plan` plans again, from the current state of source and archive; raises
    like `plan_export`."""

    target: ExportTarget
    source: RecordSource
    plan: Callable[[], ExportPlan]

    def run(self, plan: ExportPlan, runner: Runner, *, on_progress: OnProgress | None = None) -> ExportResult:
        """Execute `plan`; see `run_export`."""
        return run_export(plan, target=self.target, source=self.source, runner=runner, on_progress=on_progress)

    def alone(self) -> AbstractContextManager[None]:
        """Return a context for `plan` and `run` without a concurrent writer in the archive. Raises `ArchiveBusy`."""
        return self.target.files.exclusive()

    def follow(self, runner: Runner, *, interval_s: float, stop: Event, on_result: OnResult, outages: Outages) -> None:
        """Export new records every `interval_s` seconds until `stop` is set; a started run is finished first.
        `on_result` receives the first result, every result with tasks, and every result whose left-out partitions
        changed. Raises errors not waited out by `outages`."""
        left_out: tuple[str, ...] | None = None
        while not stop.is_set():
            try:
                with self.alone():
                    plan = self.plan()
                    result = self.run(plan, runner) if plan.tasks or plan.sick != left_out else None
            except OffsiteError as error:
                outages.wait(error)
                continue
            outages.worked()
            if result is not None:
                on_result(result)
            left_out = plan.sick
            stop.wait(interval_s)


def open_target(format_name: str, place: str, options: WriteOptions) -> ExportTarget:
    """Open the archive at `place` for writing. Touches nothing. Raises `BadOption`, `BadRepositoryUrl`."""
    files = open_archive_files(place)
    return ExportTarget(
        format=format_name, place=files.url, writer=open_writer(format_name, files, options), files=files
    )


def export_of_backup(backup: Backup, target: ExportTarget, request: ExportRequest) -> ExportJob:
    """Make the export of a backup, in the state of the backup at planning time. Raises `CommitsGone`."""
    backup = backup.for_reading(is_named=request.point.is_named, as_of=request.point.as_of_head)
    check_to_read(backup, accept_rollback=request.point.accept_rollback)
    same: set[PartitionId] = set()
    return ExportJob(
        target=target,
        source=BackupRecordSource(store=backup.store, read_committed=request.point.read_committed),
        plan=lambda: plan_export(backup, target.writer, request, same=same),
    )


def export_of_cluster(cluster: Cluster, target: ExportTarget, request: ExportRequest, *, slots: int) -> ExportJob:
    """Make the export of a cluster, in the state of the cluster at planning time. Raises `BadOption` for a restore
    point."""
    check_no_point(request)
    source = ClusterRecordSource(kafka=cluster.config, read_committed=request.point.read_committed)
    same: set[PartitionId] = set()
    return ExportJob(
        target=target,
        source=source,
        plan=lambda: plan_cluster_export(
            cluster.admin, target.writer, request, slots=slots, source_records=source, same=same
        ),
    )


def check_no_point(request: ExportRequest) -> None:
    """Refuse a restore point: a cluster is exported as of now. Raises `BadOption`."""
    point = request.point
    named = (point.commit, point.committed_at, point.checkpoint, point.at)
    if point.ends or point.before or point.incarnations or any(value is not None for value in named):
        raise BadOption(
            "a cluster has no restore points: an export of a cluster has its current records",
            hint="omit the restore point, or export from a backup with --repo and --backup",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedPartition:
    """Offsets `[start, end)` written by the export."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPlanReport:
    """The plan of an export, for display. `partitions`: with something new."""

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
