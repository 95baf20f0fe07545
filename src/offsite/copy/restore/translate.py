"""Repository → Kafka: one partition as one ordered chain, in a worker. Gaps are closed; the offset map says where to.

A map is stored when all records are acknowledged, so it is there only if they are. A restore that goes on after a crash
passes over what an earlier attempt appended, maps it again and never produces it again (see `target_writer`).
"""

from __future__ import annotations

from dataclasses import dataclass

from offsite.copy.restore.attempt import WriteAttempt
from offsite.copy.restore.dense import dense_batch
from offsite.copy.restore.plan import PartitionRestore
from offsite.copy.restore.target_partition_writer import TargetPartitionWriter
from offsite.copy.source_view import SourceView
from offsite.kafka.config.config import KafkaConfig
from offsite.kafka.net.routing import shared_router
from offsite.log.offset_map import OffsetMapBuilder
from offsite.log.range import TopicPartition
from offsite.repository.commit import PartitionId
from offsite.repository.restores.layout import RestoreLayout
from offsite.stores.store import Store


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
    router, chain = shared_router(ends.kafka), task.partition
    attempt = WriteAttempt(router, ends.store, ends.layout, chain.target, start=task.target_start)
    with attempt.judged():
        view = SourceView(chain, ends.store, read_committed=ends.read_committed)
        offset_map = OffsetMapBuilder(source_start=chain.segments[0].start, target_start=task.target_start)
        with TargetPartitionWriter(router, attempt, offset_map=offset_map) as writer:
            size_bytes = _write(view, writer)
            attempt.check()
        built = offset_map.build(source_end=chain.end, target_end=writer.next_offset)
        ends.layout.put_map(ends.store, chain.source, built, making=task.making)
    return RestoreReceipt(
        source=chain.source,
        target=chain.target,
        records=writer.records,
        resumed_records=writer.resumed_records,
        invisible_records=view.invisible_records,
        undecided=view.undecided,
        bytes=size_bytes,
    )


def _write(view: SourceView, writer: TargetPartitionWriter) -> int:
    """Bring all of `view` into the target, acknowledged; its size in bytes, whoever appended it."""
    size_bytes = 0
    for batch in view.batches():
        if (dense := dense_batch(*batch)) is not None:
            size_bytes += len(dense.batch)
            writer.take(dense)
    writer.finish()
    return size_bytes
