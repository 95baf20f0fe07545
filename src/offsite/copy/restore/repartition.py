"""Repository → Kafka: one topic into another number of partitions, by the rule that Kafka's own producers go by.

A key lives in one partition of the source, so reading each source partition in order keeps the order of every key. The
source partitions are read in turns, a slice of each, so that the records of a target partition are roughly in the order
of their times. Which record comes when, and where a batch ends, follows from the logs and the plan alone, not from how
the backup stores them: so an earlier attempt ended where one of these batches ends, and the number of records in a
target partition tells where (see `target_partition_writer`).

There is no map from source to target offsets: a source partition's records go to many places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import ceil

from offsite.copy.chain import PartitionChain
from offsite.copy.restore.attempt import WriteAttempt
from offsite.copy.restore.plan import Repartition
from offsite.copy.restore.target_partition_writer import Runs, TargetPartitionWriter
from offsite.copy.restore.translate import RestoreEnds, paced_lanes
from offsite.copy.source_view import SourceView, VisibleBatch
from offsite.kafka.net.routing import shared_router
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import encode, renumber
from offsite.log.records.partitioner import partition_for_key
from offsite.log.records.record import Record
from offsite.model.errors import KeylessRecord
from offsite.stores.store import Store

MAX_TARGETS = 16
"""Target partitions written by one task: each holds up to six of its new batches in memory."""

_MAX_BATCH_RECORDS = 10_000
"""Records of a batch at most: keeps the memory of tiny records, decoded, in proportion to that of their batch."""
_RECORD_OVERHEAD_BYTES = 32
_HEADER_OVERHEAD_BYTES = 8

SLICE_OFFSETS = 500_000
"""Offsets read of one source partition before the next has its turn: one reader is open at a time, so memory does not
grow with partitions, and what is read twice at the borders (4 MiB) stays small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionTask:
    """A task that fills some of the target partitions of one topic; `target_starts` says where each of them ended
    before the restore's first attempt. Every task of a topic reads the whole of it."""

    repartition: Repartition
    target_starts: tuple[tuple[TopicPartition, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepartitionReceipt:
    """Result for one target partition; as `RestoreReceipt`. What was left out of the whole topic is told with its
    partition 0 only."""

    target: TopicPartition
    records: int
    resumed_records: int
    invisible_records: int
    undecided: int
    bytes: int


def repartition_tasks(plan: Repartition, starts: Mapping[TopicPartition, int]) -> list[RepartitionTask]:
    """The tasks that fill all target partitions of one topic."""
    targets = [TopicPartition(topic=plan.target, partition=number) for number in range(plan.partitions)]
    groups = (targets[first : first + MAX_TARGETS] for first in range(0, len(targets), MAX_TARGETS))
    return [
        RepartitionTask(repartition=plan, target_starts=tuple((each, starts[each]) for each in group))
        for group in groups
    ]


def repartition_topic(task: RepartitionTask, *, ends: RestoreEnds) -> tuple[RepartitionReceipt, ...]:
    """Bring the task's target partitions to the plan's end. May run again after any crash.

    Raises as `translate_partition`, and `KeylessRecord` unless the plan says what becomes of such.
    """
    router = shared_router(ends.kafka)
    views = [SourceView(p, ends.store, read_committed=ends.read_committed) for p in task.repartition.sources]
    lanes = paced_lanes(router)
    with ExitStack() as stack:
        batchers: dict[int, _Batcher] = {}
        attempts: list[WriteAttempt] = []
        for target, start in task.target_starts:
            attempt = WriteAttempt(router, ends.records, ends.layout, target, start=start)
            attempts.append(attempt)
            stack.enter_context(attempt.judged())
            batchers[target.partition] = _Batcher(
                stack.enter_context(TargetPartitionWriter(router, attempt, lanes=lanes)),
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
    """The source offset of the partition's first record without a key, if there is one. Reads everything up to it."""
    batches = SourceView(partition, store, read_committed=read_committed).batches()
    return next((record.offset for batch in batches for record in batch.records() if record.key is None), None)


def _fill(batchers: Mapping[int, _Batcher], views: Sequence[SourceView], plan: Repartition) -> None:
    place = placement(plan)
    for batch in in_turns(views, plan.sources):
        codec = batch.header.codec
        for record in batch.records():
            if (batcher := batchers.get(place(record))) is not None:
                batcher.add(record, codec)


def placement(plan: Repartition) -> Callable[[Record], int]:
    """A function that gives the target partition of a record. Records without a key go to all partitions in turn, in
    the order in which every task reads; or raise `KeylessRecord`."""
    partitions, turn = plan.partitions, -1

    def place(record: Record) -> int:
        nonlocal turn
        if record.key is not None:
            return partition_for_key(record.key, partitions)
        if not plan.keyless_in_turn:
            raise KeylessRecord(
                f"{plan.target}: the record at source offset {record.offset} has no key to find its partition by",
                hint="spread such records over all partitions with --keyless in-turn: they lose their order",
            )
        turn += 1
        return turn % partitions

    return place


def in_turns(views: Sequence[SourceView], sources: Sequence[PartitionChain]) -> Iterator[VisibleBatch]:
    """The batches of all partitions, in turns: as many slices of each, so that short partitions do not end early."""
    bounds = [(source.segments[0].lowest_offset, source.end) for source in sources]
    turns = max((ceil((end - start) / SLICE_OFFSETS) for start, end in bounds), default=0)
    for turn in range(turns):
        for view, (start, end) in zip(views, bounds, strict=True):
            low, high = (start + (end - start) * each // turns for each in (turn, turn + 1))
            yield from view.batches(start=low, end=high)


def _receipt(writer: TargetPartitionWriter, views: Sequence[SourceView]) -> RepartitionReceipt:
    tells = writer.target.partition == 0
    return RepartitionReceipt(
        target=writer.target,
        records=writer.records,
        resumed_records=writer.resumed_records,
        invisible_records=sum(view.invisible_records for view in views) if tells else 0,
        undecided=sum(view.undecided for view in views) if tells else 0,
        bytes=writer.appended_bytes,
    )


class _Batcher:
    """The batches of one target partition in the making. One that is full, or of another codec than the next record,
    leaves; a record larger than a batch travels alone."""

    def __init__(self, writer: TargetPartitionWriter, *, batch_bytes: int) -> None:
        self.writer, self._batch_bytes = writer, batch_bytes
        self._open: list[Record] = []
        self._open_bytes = self._codec = 0

    def add(self, record: Record, codec: int) -> None:
        """Take the next record, from a batch of `codec`. May block, and raises, as `TargetPartitionWriter.take`."""
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
    """Records from anywhere that leave as one batch."""

    records: int
    content: Sequence[Record]
    codec: int
    runs: Runs = ()

    def encoded(self) -> bytearray:
        return encode(renumber(self.content), codec=self.codec)

    def decoded(self) -> Sequence[Record]:
        return self.content


def _size_bytes(record: Record) -> int:
    """At least what the record takes in a batch."""
    _, _, _, key, value, headers = record
    size_bytes = _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    if headers:
        size_bytes += sum(len(name) * 4 + len(held or b"") + _HEADER_OVERHEAD_BYTES for name, held in headers)
    return size_bytes
