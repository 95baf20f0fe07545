"""Repository → Kafka: one partition as one ordered chain, in a worker. Gaps are closed; the offset map says where to.

Resuming needs no state of its own: what an earlier attempt left is passed over (and mapped) again, never produced again
(see `restore_resume`). Every attempt shuts out the ones before it (see `restore_attempt`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Self

from offsite.kafka.config import KafkaConfig
from offsite.kafka.routing import shared_router
from offsite.kafka.writer import PartitionWriter
from offsite.log.batch import scan
from offsite.log.offset_map import OffsetMapBuilder
from offsite.log.range import TopicPartition
from offsite.log.record import Record
from offsite.log.records import decode
from offsite.pipeline.dense import DenseBatch, dense_batch
from offsite.pipeline.restore_attempt import WriteAttempt
from offsite.pipeline.restore_plan import PartitionRestore
from offsite.pipeline.restore_resume import AlreadyThere
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
    """A chain to write. `target_start`: where the target partition ended before the restore's first attempt; `making`:
    which making of the target topic that was (see `RestoreTargets`)."""

    partition: PartitionRestore
    target_start: int
    making: int = 1


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
    """Bring the target partition to the plan's end and store its offset map. May run again after any crash, or beside
    another run of it, which then ends.

    Raises `WriterFenced` when a newer attempt has begun, `TargetDisturbed` when an older one wrote after this one's
    beginning, `TargetNotEmpty` when the target holds what no attempt wrote, and what store and broker raise.
    """
    router, target = shared_router(ends.kafka), task.partition.target
    attempt = WriteAttempt(router, ends.store, ends.layout, target, start=task.target_start)
    with attempt.judged(), _Chain(task, ends, attempt) as chain:
        return chain.run()


class _Chain:
    """The state of one restored partition: what is written, what is on its way, and the map of both."""

    def __init__(self, task: RestoreTask, ends: RestoreEnds, attempt: WriteAttempt) -> None:
        self._task, self._plan, self._attempt = task, task.partition, attempt
        self._ends = ends
        router, target = shared_router(ends.kafka), task.partition.target
        self._view = SourceView(task.partition, ends.store, read_committed=ends.read_committed)
        self._there = AlreadyThere(router, target, attempt, start=task.target_start)
        source_start = task.partition.segments[0].start
        self._map = OffsetMapBuilder(source_start=source_start, target_start=task.target_start)
        self._next_target = task.target_start
        self._sent: deque[DenseBatch] = deque()
        self._writer = PartitionWriter(
            router, target, on_ack=self._on_ack, producer=attempt.producer(), guard=attempt.guard
        )
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
        self._there.finish()
        self._attempt.check()
        built = self._map.build(source_end=self._plan.end, target_end=self._next_target)
        self._ends.layout.put_map(self._ends.store, self._plan.source, built, making=self._task.making)
        return RestoreReceipt(
            source=self._plan.source,
            target=self._plan.target,
            records=self._records,
            resumed_records=self._there.records,
            invisible_records=self._view.invisible_records,
            undecided=self._view.undecided,
            bytes=self._bytes,
        )

    def _put(self, dense: DenseBatch) -> None:
        self._records += dense.records
        self._bytes += len(dense.batch)
        if self._there.takes(dense.records, partial(_records, dense)):
            self._place(dense, self._next_target)
        else:
            self._writer.starts_at(self._there.end)
            self._sent.append(dense)
            self._writer.send(dense.batch)

    def _on_ack(self, _index: int, base_offset: int) -> None:
        if base_offset != self._next_target:
            raise self._there.elsewhere(base_offset, self._next_target)
        self._place(self._sent.popleft(), base_offset)

    def _place(self, dense: DenseBatch, target: int) -> None:
        for source_start, count in dense.runs:
            self._map.add(source_start, target, count)
            target += count
        self._next_target = target


def _records(dense: DenseBatch) -> list[Record]:
    (header,) = scan(memoryview(dense.batch))
    return list(decode(memoryview(dense.batch), header))
