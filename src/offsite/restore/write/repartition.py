"""Repository → Kafka: one topic into another number of partitions, by the rule of Kafka's own producers.

A key lives in one partition of the source: reading every source partition in order keeps the order of every key. The
source partitions are read in turns, a slice of each, and the records of a target partition are roughly in the order of
their times. The order of records and the ends of batches depend only on the logs and the plan, not on how the backup
stores them. An earlier attempt therefore ended at the end of one of these batches, and the number of records in a
target partition tells which (see `translate`).

No map from source to target offsets exists: a source partition's records go to many places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import ceil

from offsite.kafka.net.routing import shared_router
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import encode, renumber
from offsite.log.records.record import Record, partition_for_key
from offsite.model.errors import KeylessRecord
from offsite.points.point_in_time import PartitionChain
from offsite.points.record_rewrite import counts_of
from offsite.points.source_view import SourceView, VisibleBatch
from offsite.restore.write.attempt import RestoreEnds, RestoreReceipt, WriteAttempt, paced_lanes
from offsite.restore.write.plan import Repartition
from offsite.restore.write.translate import Runs, TargetPartitionWriter
from offsite.stores.store import Store

MAX_TARGETS = 16
"""Target partitions written by one task: up to six new batches per partition are in memory."""

_MAX_BATCH_RECORDS = 10_000
"""Most records of a batch: keeps the memory of tiny decoded records in proportion to the batch."""
_RECORD_OVERHEAD_BYTES = 32
_HEADER_OVERHEAD_BYTES = 8

SLICE_OFFSETS = 500_000
"""Offsets read of one source partition before the next has its turn. One reader is open at a time: memory does not grow
with partitions, and the data read twice at the borders (4 MiB) stays small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionTask:
    """A task that fills some of the target partitions of one topic; `target_starts`: the end of every target partition
    before the restore's first attempt. Every task of a topic reads the whole topic."""

    repartition: Repartition
    target_starts: tuple[tuple[TopicPartition, int], ...]


def repartition_tasks(plan: Repartition, starts: Mapping[TopicPartition, int]) -> list[RepartitionTask]:
    """The tasks that fill all target partitions of one topic."""
    targets = [TopicPartition(topic=plan.target, partition=number) for number in range(plan.partitions)]
    groups = (targets[first : first + MAX_TARGETS] for first in range(0, len(targets), MAX_TARGETS))
    return [
        RepartitionTask(repartition=plan, target_starts=tuple((target, starts[target]) for target in group))
        for group in groups
    ]


def repartition_topic(task: RepartitionTask, *, ends: RestoreEnds) -> tuple[RestoreReceipt, ...]:
    """Bring the task's target partitions to the plan's end. May run again after any crash.

    Raises as `translate_partition`, and `KeylessRecord` unless the plan allows records without a key.
    """
    router = shared_router(ends.kafka)
    views = [
        SourceView(source, ends.store, read_committed=ends.read_committed, records=ends.records)
        for source in task.repartition.sources
    ]
    lanes = paced_lanes(router)
    with ExitStack() as stack:
        batchers: dict[int, _Batcher] = {}
        attempts: list[WriteAttempt] = []
        for target, start in task.target_starts:
            attempt = WriteAttempt(router, ends.records, ends.layout, target, start=start)
            attempts.append(attempt)
            stack.enter_context(attempt.judged())
            batchers[target.partition] = _Batcher(
                stack.enter_context(TargetPartitionWriter(attempt, lanes=lanes)),
                batch_bytes=task.repartition.batch_bytes,
            )
        attempts[0].check()  # nothing is written before this
        _fill(batchers, views, task.repartition)
        for batcher in batchers.values():
            batcher.finish()
        for attempt in attempts:
            attempt.check()
    return tuple(_receipt(batcher.writer, views) for batcher in batchers.values())


def keyless_offset(partition: PartitionChain, *, store: Store, read_committed: bool) -> int | None:
    """The source offset of the partition's first record without a key, if any. Reads everything up to the record."""
    batches = SourceView(partition, store, read_committed=read_committed).batches()
    return next((record.offset for batch in batches for record in batch.records() if record.key is None), None)


def _fill(batchers: Mapping[int, _Batcher], views: Sequence[SourceView], plan: Repartition) -> None:
    place = partition_chooser(plan)
    for batch in interleave_batches(views, plan.sources):
        codec = batch.header.codec
        for record in batch.records():
            if (batcher := batchers.get(place(record))) is not None:
                batcher.add(record, codec)


def partition_chooser(plan: Repartition) -> Callable[[Record], int]:
    """A function that gives the target partition of a record. A record without a key goes to the partitions in turn, in
    the read order of every task; or raises `KeylessRecord`."""
    partitions, turn = plan.partitions, -1

    def place(record: Record) -> int:
        nonlocal turn
        if record.key is not None:
            return partition_for_key(record.key, partitions)
        if not plan.keyless_in_turn:
            raise KeylessRecord(
                f"{plan.target}: the record at source offset {record.offset} has no key, so its partition is undefined",
                hint="use --keyless in-turn to spread records without keys over all partitions: they lose their order",
            )
        turn += 1
        return turn % partitions

    return place


def interleave_batches(views: Sequence[SourceView], sources: Sequence[PartitionChain]) -> Iterator[VisibleBatch]:
    """The batches of all partitions, in turns: the same number of slices of every partition, so that short partitions
    do not end early."""
    bounds = [(source.segments[0].lowest_offset, source.end) for source in sources]
    turns = max((ceil((end - start) / SLICE_OFFSETS) for start, end in bounds), default=0)
    for turn in range(turns):
        for view, (start, end) in zip(views, bounds, strict=True):
            low, high = (start + (end - start) * step // turns for step in (turn, turn + 1))
            yield from view.batches(start=low, end=high)


def _receipt(writer: TargetPartitionWriter, views: Sequence[SourceView]) -> RestoreReceipt:
    """The receipt of partition 0 alone reports what was left out and changed in the whole topic."""
    tells = writer.target.partition == 0
    return RestoreReceipt(
        target=writer.target,
        records=writer.records,
        resumed_records=writer.resumed_records,
        invisible_records=sum(view.invisible_records for view in views) if tells else 0,
        undecided=sum(view.undecided for view in views) if tells else 0,
        bytes=writer.appended_bytes,
        rewritten=counts_of([view.rewriting for view in views] if tells else []),
    )


class _Batcher:
    """Builds the batches of one target partition. A full batch is sent, and a batch with another codec than the next
    record; a record larger than a batch travels alone."""

    def __init__(self, writer: TargetPartitionWriter, *, batch_bytes: int) -> None:
        self.writer, self._batch_bytes = writer, batch_bytes
        self._open: list[Record] = []
        self._open_bytes = self._codec = 0

    def add(self, record: Record, codec: int) -> None:
        """Add the next record, from a batch of `codec`. May block, and raises, as `TargetPartitionWriter.take`."""
        size_bytes = _size_bytes(record)
        full = self._open_bytes + size_bytes > self._batch_bytes or len(self._open) == _MAX_BATCH_RECORDS
        if self._open and (full or codec != self._codec):
            self._close_batch()
        self._codec = codec
        self._open.append(record)
        self._open_bytes += size_bytes

    def finish(self) -> None:
        """Return when everything is acknowledged. Raises as `add`."""
        if self._open:
            self._close_batch()
        self.writer.finish()

    def _close_batch(self) -> None:
        self.writer.take(_NewBatch(records=len(self._open), content=self._open, codec=self._codec))
        self._open, self._open_bytes = [], 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewBatch:
    """Records from any source batches that are sent as one batch."""

    records: int
    content: Sequence[Record]
    codec: int
    runs: Runs = ()

    def encoded(self) -> bytearray:
        return encode(renumber(self.content), codec=self.codec)

    def decoded(self) -> Sequence[Record]:
        return self.content


def _size_bytes(record: Record) -> int:
    """The least size of the record in a batch."""
    _, _, _, key, value, headers = record
    size_bytes = _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    if headers:
        size_bytes += sum(
            len(name) * 4 + len(header_value or b"") + _HEADER_OVERHEAD_BYTES for name, header_value in headers
        )
    return size_bytes
