"""A range of records → files of a foreign archive, in a worker. Nothing counts before the driver has finished it.

The records come from a backup, or from a cluster itself, exact to the record, whatever the batches: a range may begin
and end inside a batch, and then both tasks decode that batch, and each keeps its part. With `read_committed` nothing is
given beyond the first transaction that has no outcome yet: the next export goes on there, and would miss what was left
out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol
from uuid import UUID

from offsite.archives.archive import ArchiveWriter, Written
from offsite.copy.chain import PartitionChain
from offsite.copy.plan import OF_ONE_PARTITION
from offsite.copy.source_view import SourceView, committed_view, undecided_batches
from offsite.kafka.config.config import KafkaConfig
from offsite.kafka.net.routing import shared_router
from offsite.kafka.read_task import ReadTask
from offsite.kafka.reader import PartitionReader
from offsite.log.batch import TRANSACTIONAL_BIT
from offsite.log.chunk import Chunk, Gap, Hole
from offsite.log.committed_view import CommittedView, sees_uncommitted
from offsite.log.range import LogRange
from offsite.log.records.record_columns import RecordColumns, read_columns
from offsite.log.transactions import log_markers
from offsite.model.collector import rare_collections
from offsite.model.errors import Bug, OffsiteError
from offsite.spark import meter
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTask:
    """The records with offsets in `range`, about `estimated_bytes` of them. Of a backup: `chain` has the segments that
    hold them. Of a cluster: `topic_id` is the incarnation that was planned, `high_watermark` where its log ended."""

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
        """The part of the task's range that may be exported now: less than all of it where a transaction is open."""

    def records(self, task: ExportTask, log_range: LogRange) -> Iterator[RecordColumns | Hole]:
        """The records of `log_range`, in order, batch by batch; holes where the source lost what had been planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRecords:
    """Records of a backup. Raises `DamagedObject`, and what the store raises."""

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
class ClusterRecords:
    """Records of a cluster. Raises what `PartitionReader` raises. With `read_committed` ranges end at the last stable
    offset, so that each transaction in them has its outcome, maybe behind them."""

    kafka: KafkaConfig
    read_committed: bool

    def stable_range(self, task: ExportTask) -> LogRange:
        return task.range

    def records(self, task: ExportTask, log_range: LogRange) -> Iterator[RecordColumns | Hole]:
        view: CommittedView | None = None
        for item in meter.counted(self._read(task, log_range)):
            if isinstance(item, Hole):
                log_range = replace(log_range, start=item.end)  # of a batch cut there, only the rest counts
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
        """The outcomes of the range's transactions, which may end behind it: its end is stable, the log's end was the
        planned one."""
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
        raise Bug(f"{task.range} of a backup, without its segments")
    return task.chain


def _ended(log_range: LogRange, end: int) -> LogRange:
    return replace(log_range, end=max(log_range.start, min(end, log_range.end)))


def _has_transactions(chunk: Chunk) -> bool:
    return any(header.attributes & TRANSACTIONAL_BIT for header in chunk.batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportEnds:
    """The two ends of an export's copy, source and archive, as they travel to the workers."""

    source: RecordSource
    writer: ArchiveWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReceipt:
    """Result of one task. `written` is None when nothing of its range can be exported yet. `undecided_from` is the
    offset of the open transaction that stopped it, or -1. `holes` were met on the way. `failed` is the reason why the
    cluster did not let the range be read."""

    range: LogRange
    written: Written | None
    holes: tuple[Hole, ...] = ()
    undecided_from: int = -1
    failed: OffsiteError | None = None


def export_range(task: ExportTask, *, ends: ExportEnds) -> ExportReceipt:
    """Write the task's records. May run twice: a range gives the same files each time. A partition of a cluster that
    cannot be read says so in its receipt, and keeps no other from being written.

    Raises `NotRepresentable`, and what the two ends raise.
    """
    try:
        with rare_collections():
            return _export(task, ends)
    except OF_ONE_PARTITION as error:
        if task.chain is not None:  # of a backup, it is damage
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
