"""Exports the new part of a backup, or of a cluster, into a foreign archive.

An export runs in rounds: a round writes some ranges in parallel and makes the ranges count, so a killed export loses at
most a round. Archived records are never written again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from offsite.archives.archive import ArchiveWriter, RangeReceipt
from offsite.archives.export import ExportEnds, ExportReceipt, ExportTask, RecordSource, export_range
from offsite.archives.export_plan import ExportPlan
from offsite.archives.files import Files
from offsite.engine.runner import OnProgress, Runner, WholeProgress, job_named
from offsite.log.group_offsets import offset_count
from offsite.log.range import TopicPartition
from offsite.model.errors import ArchiveBusy, OffsiteError
from offsite.model.journal import warned
from offsite.model.names import amount
from offsite.reports.log_report import HoleReport

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
