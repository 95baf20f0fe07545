"""Exports the new part of a backup, or of a cluster, into a foreign archive: once, or for as long as the source grows.

An export runs in rounds: a round writes some ranges in parallel and makes the ranges count, so a killed export loses at
most a round. Archived records are never written again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from threading import Event

from offsite.archives.archive import ArchiveWriter, RangeReceipt
from offsite.archives.export.cluster_plan import plan_cluster_export
from offsite.archives.export.plan import ExportPlan, ExportRequest, plan_export
from offsite.archives.export.task import (
    BackupRecordSource,
    ClusterRecordSource,
    ExportEnds,
    ExportReceipt,
    ExportTask,
    RecordSource,
    export_range,
)
from offsite.archives.files import Files
from offsite.archives.formats import WriteOptions, open_writer
from offsite.backup.outages import Outages
from offsite.engine.runner import OnProgress, Runner, WholeProgress, job_named
from offsite.kafka.cluster import Cluster
from offsite.log.group_offsets import offset_count
from offsite.log.range import PartitionId, TopicPartition
from offsite.model.errors import ArchiveBusy, BadOption, OffsiteError
from offsite.model.journal import warned
from offsite.model.names import amount
from offsite.reports.point_report import HoleReport
from offsite.repository.backup import Backup
from offsite.repository.heads import check_to_read
from offsite.stores.open_store import open_archive_files

ROUND_TASKS = 64
"""Ranges of a round, about 6 GiB: repeating a round after a crash takes minutes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Postponed:
    """The stop of a partition: a transaction that began at `offset` was undecided."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """The additions of a run. `bytes`: of records, `size_bytes`: of the files. `losses`: properties left out of
    records, with the number of records (`--lossy`). `not_held`: further properties without a place in the format.
    `postponed` partitions continue with the next run; `sick` partitions could not be read, with the reason."""

    format: str
    archive: str
    source: str
    topics: int
    records: int
    files: int
    bytes: int
    size_bytes: int
    groups: int
    group_offsets: int
    holes: tuple[HoleReport, ...]
    losses: tuple[tuple[str, int], ...]
    not_held: tuple[str, ...]
    postponed: tuple[Postponed, ...]
    notes: tuple[str, ...]
    sick: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.holes and not self.sick


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTarget:
    """The archive to write. `format` and `place`: names for people."""

    format: str
    place: str
    writer: ArchiveWriter
    files: Files


def run_export(
    plan: ExportPlan,
    *,
    target: ExportTarget,
    source: RecordSource,
    runner: Runner,
    on_progress: OnProgress | None = None,
) -> ExportResult:
    """Write `plan`, and finish round by round. After a failure, a new plan continues behind the finished rounds. A
    partition of a cluster that fails during reading is finished up to the failure, and listed.

    Raises `NotRepresentable`, `ArchiveBusy`, the errors of source and archive, and the errors of partitions when no
    partition could be read.
    """
    ends = ExportEnds(source=source, writer=target.writer)
    receipts: list[ExportReceipt] = []
    stopped: dict[TopicPartition, OffsiteError] = {}
    not_held: tuple[str, ...] = ()
    progress = WholeProgress(on_progress, tasks_total=len(plan.tasks))
    for planned in _rounds(plan.tasks):
        tasks = [task for task in planned if task.range.topic_partition not in stopped]
        with job_named(f"export: {amount(len(tasks), 'range')} of {len(plan.tasks):,}"):
            finished = runner.run(tasks, partial(export_range, ends=ends), on_progress=progress) if tasks else []
        counting = list(_counting(finished, stopped))
        progress.next_run()
        _check_alone(target, _written(counting))
        not_held = target.writer.finish(_written(counting), plan.topics, plan.groups)
        receipts += counting
    if stopped and not receipts:
        raise stopped[min(stopped)]
    if stopped:
        target.writer.ends()  # sweeps what was written behind the ranges that failed
    return _result(plan, target, receipts, not_held, stopped)


def _counting(
    receipts: Sequence[ExportReceipt], stopped: dict[TopicPartition, OffsiteError]
) -> Iterator[ExportReceipt]:
    """Yield the receipts, in rising order, before the first failure of their partition; failures go to `stopped`."""
    for receipt in receipts:
        key = receipt.range.topic_partition
        if receipt.failed is not None and key not in stopped:
            warned("stop", why=receipt.failed.message, topic=key.topic, partition=key.partition)
            stopped[key] = receipt.failed
        if key not in stopped:
            yield receipt


def _check_alone(target: ExportTarget, written: Sequence[RangeReceipt]) -> None:
    """Raise `ArchiveBusy` when files of the export are gone: a concurrent export takes the files for leftovers of a
    crash, unless a lock keeps the export out."""
    if target.files.has_lock:
        return
    files = {file.name: file.size_bytes for range_receipt in written for file in range_receipt.files}
    folders = sorted({f"{name.rpartition('/')[0]}/" for name in files})
    present = {info.key: info.size_bytes for folder in folders for info in target.files.list(folder)}
    if gone := sorted(name for name, size_bytes in files.items() if present.get(name) != size_bytes):
        raise ArchiveBusy(
            f"{gone[0]} was removed or replaced while this export wrote into {target.place}",
            hint="run one export into an archive at a time, then run this command again",
        )


def _rounds(tasks: Sequence[ExportTask]) -> Iterator[Sequence[ExportTask]]:
    """Split the tasks into rounds; at least one round, since topics and groups may be new without a record."""
    for first in range(0, max(1, len(tasks)), ROUND_TASKS):
        yield tasks[first : first + ROUND_TASKS]


def _result(
    plan: ExportPlan,
    target: ExportTarget,
    receipts: Sequence[ExportReceipt],
    not_held: tuple[str, ...],
    stopped: Mapping[TopicPartition, OffsiteError],
) -> ExportResult:
    written = _written(receipts)
    files = [file for range_receipt in written for file in range_receipt.files]
    losses: Counter[str] = Counter()
    for range_receipt in written:
        losses.update(dict(range_receipt.losses))
    holes_met = tuple(
        HoleReport(topic=h.topic, partition=h.partition, start=h.start, end=h.end, reason=h.reason)
        for receipt in receipts
        for h in receipt.holes
    )
    return ExportResult(
        format=target.format,
        archive=target.place,
        source=plan.source,
        topics=len(plan.topics),
        records=sum(range_receipt.records for range_receipt in written),
        files=len({file.name for file in files}),
        bytes=sum(file.plain_bytes for file in files),
        size_bytes=sum(file.size_bytes for file in files),
        groups=len(plan.groups),
        group_offsets=offset_count(plan.groups),
        holes=(*plan.holes, *holes_met),
        losses=tuple(sorted(losses.items())),
        not_held=not_held,
        postponed=tuple(
            Postponed(topic=r.range.topic, partition=r.range.partition, offset=r.undecided_from)
            for r in receipts
            if r.undecided_from >= 0
        ),
        notes=(*plan.notes, *target.writer.left_alone()),
        sick=(*plan.sick, *(f"{key}: {error.message}" for key, error in sorted(stopped.items()))),
    )


def _written(receipts: Sequence[ExportReceipt]) -> list[RangeReceipt]:
    return [receipt.written for receipt in receipts if receipt.written is not None]


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
