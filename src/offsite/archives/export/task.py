"""A range of records → files of a foreign archive, in a worker. Nothing counts before the driver has finished the
export.

The records come from a backup or from a cluster, exact to the record, whatever the batches. A range may begin and end
inside a batch: both neighbouring tasks decode the batch, and keep their own part. With `read_committed` the export ends
before the first transaction without an outcome. The next export continues there; records passed over now would be
missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol
from uuid import UUID

from offsite.archives.archive import ArchiveWriter, RangeReceipt
from offsite.backup.copy_plan import PARTITION_ERRORS
from offsite.engine import meter
from offsite.kafka.config import KafkaConfig
from offsite.kafka.net.routing import shared_router
from offsite.kafka.read_task import ReadTask
from offsite.kafka.reader import PartitionReader
from offsite.log.batch import TRANSACTIONAL_BIT
from offsite.log.committed_view import CommittedView, sees_uncommitted
from offsite.log.range import Chunk, Gap, Hole, LogRange
from offsite.log.records.record_columns import RecordColumns, rare_collections, read_columns
from offsite.log.transactions import log_markers
from offsite.model.errors import Bug, OffsiteError
from offsite.points.point_in_time import PartitionChain
from offsite.points.source_view import SourceView, committed_view, undecided_batches
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTask:
    """The records with offsets in `range`, about `estimated_bytes`. From a backup: `chain` has the segments of the
    records. From a cluster: `topic_id` is the planned incarnation, `high_watermark` the planned end of the log."""

    range: LogRange
    estimated_bytes: int
    chain: PartitionChain | None = None
    topic_id: str = ""
    high_watermark: int = 0
    leader_epoch: int = -1
    was_compacted: bool = False

    @property
    def title(self) -> str:
        return str(self.range.topic_partition)


class RecordSource(Protocol):
    def stable_range(self, task: ExportTask) -> LogRange:
        """The part of the task's range that may be exported now: less than the range while a transaction is open."""

    def records(self, task: ExportTask, log_range: LogRange) -> Iterator[RecordColumns | Hole]:
        """The records of `log_range`, in order, batch by batch; holes where the source lost planned records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRecordSource:
    """Records of a backup. Raises `DamagedObject`, and the errors of the store."""

    store: Store
    read_committed: bool

    def stable_range(self, task: ExportTask) -> LogRange:
        chain = _chain(task)
        if self.read_committed:
            view = committed_view(chain, self.store)
            for header in undecided_batches(chain, self.store, view):
                if header.last_offset >= task.range.start and view.is_open(header):
                    return _ended(task.range, header.base_offset)
        return task.range

    def records(self, task: ExportTask, log_range: LogRange) -> Iterator[RecordColumns]:
        view = SourceView(_chain(task), self.store, read_committed=self.read_committed)
        for batch in view.batches(end=log_range.end):
            if batch.header.last_offset >= log_range.start:
                yield batch.columns().within(log_range.start, log_range.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecordSource:
    """Records of a cluster. Raises the errors of `PartitionReader`. With `read_committed` ranges end at the last stable
    offset: every transaction in a range has an outcome, maybe behind the range."""

    kafka: KafkaConfig
    read_committed: bool

    def stable_range(self, task: ExportTask) -> LogRange:
        return task.range

    def records(self, task: ExportTask, log_range: LogRange) -> Iterator[RecordColumns | Hole]:
        view: CommittedView | None = None
        for item in meter.count_items(self._read(task, log_range)):
            if isinstance(item, Hole):
                log_range = replace(log_range, start=item.end)  # of a batch cut by the hole, only the rest counts
                yield item
            if isinstance(item, Hole | Gap):
                continue
            if view is None and self.read_committed and _has_transactions(item):
                view = self._view(task, replace(log_range, start=max(log_range.start, item.batches[0].base_offset)))
            is_visible = view.is_visible if view else sees_uncommitted
            for header in item.batches:
                if is_visible(header) and header.record_count:
                    columns = read_columns(header.view(item.data), header)
                    yield columns.within(log_range.start, log_range.end)

    def _view(self, task: ExportTask, log_range: LogRange) -> CommittedView:
        """The outcomes of the range's transactions. A transaction may end behind the range: the range ends at a stable
        offset, and the log ends at the planned end."""
        end = max(task.high_watermark, log_range.end)
        return CommittedView(log_markers(partial(self._read, task), log_range, behind_to=end), end_offset=end)

    def _read(self, task: ExportTask, log_range: LogRange) -> Iterator[Chunk | Hole | Gap]:
        reader = PartitionReader(shared_router(self.kafka), on_throttle=meter.throttle)
        return reader.read_task(
            ReadTask(
                range=log_range,
                topic_id=UUID(task.topic_id) if task.topic_id else None,
                planned_epoch=task.leader_epoch,
                was_compacted=task.was_compacted,
                reach_back=True,
            )
        )


def _chain(task: ExportTask) -> PartitionChain:
    if task.chain is None:
        raise Bug(f"{task.range} of a backup, but without segments")
    return task.chain


def _ended(log_range: LogRange, end: int) -> LogRange:
    return replace(log_range, end=max(log_range.start, min(end, log_range.end)))


def _has_transactions(chunk: Chunk) -> bool:
    return any(header.attributes & TRANSACTIONAL_BIT for header in chunk.batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportEnds:
    """The two ends of an export's copy, source and archive, as sent to the workers."""

    source: RecordSource
    writer: ArchiveWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReceipt:
    """Result of one task. `written` is None when nothing of the range can be exported yet. `undecided_from` is the
    offset of the open transaction that stopped the export, or -1. `holes`: the holes met by the export. `failed` is the
    reason why the cluster did not allow the read."""

    range: LogRange
    written: RangeReceipt | None
    holes: tuple[Hole, ...] = ()
    undecided_from: int = -1
    failed: OffsiteError | None = None


def export_range(task: ExportTask, *, ends: ExportEnds) -> ExportReceipt:
    """Write the task's records. May run twice: a range gives the same files every time. An unreadable partition of a
    cluster is reported in its receipt, and stops no other partition.

    Raises `NotRepresentable`, and the errors of the two ends.
    """
    try:
        with rare_collections():
            return _export(task, ends)
    except PARTITION_ERRORS as error:
        if task.chain is not None:  # in a backup the error means damage
            raise
        return ExportReceipt(range=task.range, written=None, failed=error)


def _export(task: ExportTask, ends: ExportEnds) -> ExportReceipt:
    stable = ends.source.stable_range(task)
    undecided_from = stable.end if stable.end < task.range.end else -1
    if not stable:
        return ExportReceipt(range=stable, written=None, undecided_from=undecided_from)
    holes: list[Hole] = []
    with ends.writer.open(stable) as writer:
        for item in ends.source.records(task, stable):
            if isinstance(item, Hole):
                holes.append(item)
            else:
                writer.append_columns(item)
        written = writer.close()
    return ExportReceipt(range=stable, written=written, holes=tuple(holes), undecided_from=undecided_from)
