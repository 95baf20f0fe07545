"""Repository → Kafka: one partition as one ordered chain, in a worker. Gaps are closed; the offset map records the new
offsets.

A map is stored after all records are acknowledged: a stored map proves the records. A restore that continues after a
crash skips the records of an earlier attempt, maps them again, and never produces them again (see
`target_partition_writer`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from offsite.engine import rate_lease
from offsite.kafka.config import KafkaConfig
from offsite.kafka.lane import Lanes
from offsite.kafka.net.routing import Router, shared_router
from offsite.log.batch import BatchHeader, scan
from offsite.log.offset_map import OffsetMapBuilder
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import decode
from offsite.log.records.record import Record
from offsite.log.rewrite import filter_records, needs_reencode, reencode_dense
from offsite.points.source_view import RecordBounds, SourceView
from offsite.repository.commit import PartitionId
from offsite.repository.restores.layout import RestoreLayout
from offsite.restore.write.attempt import WriteAttempt
from offsite.restore.write.plan import PartitionRestore
from offsite.restore.write.target_partition_writer import TargetPartitionWriter
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreEnds:
    """The two ends of a restore's copy, repository and cluster, as sent to the workers. `records`: the store of the
    restore's records. `read_committed`: leave out aborted data, and data undecided at the restore point."""

    kafka: KafkaConfig
    store: Store
    records: Store
    layout: RestoreLayout
    read_committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTask:
    """One chain to write. `target_start`: the end of the target partition before the restore's first attempt; `making`:
    the number of the making of the target topic (see `RestoreTargets`)."""

    partition: PartitionRestore
    target_start: int
    making: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReceipt:
    """Result for one partition. `records` are in the target now, `resumed_records` of them written by an earlier
    attempt; `invisible_records` were left out as aborted or undecided, `undecided` counts the undecided
    transactions."""

    source: PartitionId
    target: TopicPartition
    records: int
    resumed_records: int
    invisible_records: int
    undecided: int
    bytes: int


def paced_lanes(router: Router) -> Lanes:
    """Lanes that send batches at the rate of the running task. Raises `SparkFailed`."""
    pace = rate_lease.write_lease()
    return Lanes(router, pay=None if pace is None else pace.pay)


RestoreSteps: TypeAlias = Generator[None, None, RestoreReceipt]
"""The writing of one partition, about a batch at a time, so that several partitions can take turns."""


def translate_partition(
    task: RestoreTask, attempt: WriteAttempt, *, ends: RestoreEnds, lanes: Lanes | None = None
) -> RestoreSteps:
    """Bring the target partition to the plan's end and store its offset map. May run again after any crash, as a new
    attempt, or beside another run of the same task, which then ends.

    Raises `WriterFenced` when a newer attempt has begun, `TargetDisturbed` when an older attempt wrote after the
    beginning of this one, `TargetNotEmpty` when the target holds records of no attempt, and the errors of store and
    broker.
    """
    router, chain = shared_router(ends.kafka), task.partition
    with attempt.judged():
        attempt.guard()  # the attempt may have begun long ago
        view = SourceView(chain, ends.store, read_committed=ends.read_committed)
        offset_map = OffsetMapBuilder(source_start=chain.segments[0].start, target_start=task.target_start)
        size_bytes = 0
        with TargetPartitionWriter(router, attempt, offset_map=offset_map, lanes=lanes) as writer:
            for batch in view.batches():
                if (dense := dense_batch(*batch)) is not None:
                    size_bytes += len(dense.batch)
                    writer.take(dense)
                    yield
            writer.finish()
            attempt.check()  # brokers fence records, not maps: an attempt that was overtaken stores none
        built = offset_map.build(source_end=chain.end, target_end=writer.next_offset)
        ends.layout.put_map(ends.records, chain.source, built, making=task.making)
    return RestoreReceipt(
        source=chain.source,
        target=chain.target,
        records=writer.records,
        resumed_records=writer.resumed_records,
        invisible_records=view.invisible_records,
        undecided=view.undecided,
        bytes=size_bytes,
    )


class DenseBatch(NamedTuple):
    """The gap-free image of a source batch, produced by a restore that closes gaps. `batch` holds `records` records;
    they stand for the source offsets of `runs`, pairs of (first offset, count) in rising order.

    Nearly every batch is sent unchanged, without a copy: `batch` may be part of the source buffer. Only a batch with
    inner gaps, with times given by a broker, or with a border of the restored range inside is decoded.
    """

    batch: bytearray | memoryview
    records: int
    runs: Sequence[tuple[int, int]]

    def encoded(self) -> bytearray | memoryview:
        return self.batch

    def decoded(self) -> list[Record]:
        """The records at the offsets of `batch`, which may differ from `runs`."""
        (header,) = scan(memoryview(self.batch))
        return decode(memoryview(self.batch), header)


def dense_batch(data: memoryview, header: BatchHeader, record_bounds: RecordBounds) -> DenseBatch | None:
    """The batch `header` of `data` with the records accepted by `record_bounds`; None without any."""
    if record_bounds.takes_none(header):
        return None
    batch = header.view(data)
    if record_bounds.takes_all(header) and not needs_reencode(header):
        runs = ((header.base_offset, header.record_count),)
        return DenseBatch(batch=batch, records=header.record_count, runs=runs)
    return _reencoded(batch, header, record_bounds)


def _reencoded(batch: memoryview, header: BatchHeader, record_bounds: RecordBounds) -> DenseBatch | None:
    filtered = filter_records(batch, header, record_bounds.takes)
    if filtered is None:
        return None
    (kept_header,) = scan(memoryview(filtered))
    runs = _runs(record.offset for record in decode(filtered, kept_header))
    dense = reencode_dense(filtered, kept_header)
    return DenseBatch(batch=dense, records=sum(count for _, count in runs), runs=runs)


def _runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and offset == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((offset, 1))
    return runs
