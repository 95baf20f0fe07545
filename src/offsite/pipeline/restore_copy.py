"""Repository → Kafka: one partition as one ordered chain, in a worker. Gaps are closed; the offset map says where to.

Resuming needs no state of its own: the target partition was empty and only this chain writes to it, so the number of
records it holds is how far an earlier attempt came. Those are passed over (and mapped) again, never produced again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Self

from offsite.kafka.config import KafkaConfig
from offsite.kafka.end_offset import settled_end_offset
from offsite.kafka.routing import shared_router
from offsite.kafka.writer import PartitionWriter
from offsite.log.offset_map import OffsetMapBuilder
from offsite.log.range import TopicPartition
from offsite.model.errors import TargetNotEmpty
from offsite.pipeline.dense import DenseBatch, dense_batch
from offsite.pipeline.restore_plan import PartitionRestore
from offsite.pipeline.source_view import SourceView
from offsite.repository.commit import PartitionId
from offsite.repository.restore_layout import RestoreLayout
from offsite.repository.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreEnds:
    """The two ends of a restore's copy, as they travel to the workers. `read_committed`: leave out what transactions
    aborted, and what was undecided at the restore point."""

    kafka: KafkaConfig
    store: Store
    layout: RestoreLayout
    read_committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTask:
    """A chain to write. `target_start`: where the target partition ended before the restore's first attempt."""

    partition: PartitionRestore
    target_start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReceipt:
    """What became of one partition. `records` are those in the target now, `resumed_records` of them written by an
    earlier attempt; `invisible_records` were left out as aborted or undecided, `undecided` counts such transactions."""

    source: PartitionId
    target: TopicPartition
    records: int
    resumed_records: int
    invisible_records: int
    undecided: int
    bytes: int


def restore_partition(task: RestoreTask, *, ends: RestoreEnds) -> RestoreReceipt:
    """Bring the target partition to the plan's end and store its offset map. May run again after any crash.

    Raises `TargetNotEmpty` when the target holds what this chain cannot have written, and what store and broker raise.
    """
    with _Chain(task, ends) as chain:
        return chain.run()


class _Chain:
    """The state of one restored partition: what is written, what is on its way, and the map of both."""

    def __init__(self, task: RestoreTask, ends: RestoreEnds) -> None:
        self._plan = task.partition
        self._ends = ends
        router = shared_router(ends.kafka)
        self._view = SourceView(task.partition, ends.store, read_committed=ends.read_committed)
        self._written = settled_end_offset(router, task.partition.target, start=task.target_start) - task.target_start
        self._resumed = self._written
        source_start = task.partition.segments[0].start
        self._map = OffsetMapBuilder(source_start=source_start, target_start=task.target_start)
        self._next_target = task.target_start
        self._sent: deque[DenseBatch] = deque()
        self._writer = PartitionWriter(router, task.partition.target, on_ack=self._on_ack)
        self._records = self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def run(self) -> RestoreReceipt:
        """Produce what is not there yet, wait for the last acknowledgement, then store the map: a map is there only
        when the records are."""
        for batch in self._view.batches():
            if (dense := dense_batch(*batch)) is not None:
                self._put(dense)
        self._writer.flush()
        if self._written:
            raise foreign_records(self._plan.target)
        built = self._map.build(source_end=self._plan.end, target_end=self._next_target)
        self._ends.layout.put_map(self._ends.store, self._plan.source, built)
        return RestoreReceipt(
            source=self._plan.source,
            target=self._plan.target,
            records=self._records,
            resumed_records=self._resumed,
            invisible_records=self._view.invisible_records,
            undecided=self._view.undecided,
            bytes=self._bytes,
        )

    def _put(self, dense: DenseBatch) -> None:
        self._records += dense.records
        self._bytes += len(dense.batch)
        if self._written >= dense.records:
            self._written -= dense.records
            self._place(dense, self._next_target)
        elif self._written:
            raise foreign_records(self._plan.target)
        else:
            self._sent.append(dense)
            self._writer.send(dense.batch)

    def _on_ack(self, _index: int, base_offset: int) -> None:
        if base_offset != self._next_target:
            raise foreign_records(self._plan.target)
        self._place(self._sent.popleft(), base_offset)

    def _place(self, dense: DenseBatch, target: int) -> None:
        for source_start, count in dense.runs:
            self._map.add(source_start, target, count)
            target += count
        self._next_target = target


def foreign_records(target: TopicPartition) -> TargetNotEmpty:
    return TargetNotEmpty(
        f"{target} holds records that this restore did not write",
        hint="stop whatever else writes to it; delete the topic and restore again, or restore under another name",
    )
