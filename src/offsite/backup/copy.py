"""Kafka → repository: one range, in a worker. Raw batches in, segments and a receipt out; commits nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from offsite.backup.copy_plan import NO_WINDOW, CopyTask
from offsite.backup.stamps import ObservedStamps, stamp_fold
from offsite.engine import meter, rate_lease
from offsite.kafka.config import KafkaConfig
from offsite.kafka.net.routing import shared_router
from offsite.kafka.read_task import FETCH_BYTES, Item, ReadTask, Unlimited
from offsite.kafka.reader import PartitionReader
from offsite.log.batch import LastBatch
from offsite.log.range import Chunk, Gap, Hole, LogRange
from offsite.log.transactions import StretchTail, TailFold
from offsite.model.errors import SourceTruncated, TopicReplaced
from offsite.model.options import CompressionChoice
from offsite.model.units import MIB
from offsite.repository.layout import BackupLayout
from offsite.repository.segments.pack import PackWriter
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import TARGET_SEGMENT_BYTES, ObjectSink, SegmentWriter
from offsite.stores.store import Store
from offsite.stores.wrapped_store import PacedStore, object_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupEnds:
    """The two ends of a backup's copy, cluster and repository, as sent to the workers."""

    kafka: KafkaConfig
    store: Store
    layout: BackupLayout
    compression: CompressionChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReceipt:
    """Result of one task: durable segments, holes met by the copy, gaps in front of the first batch and behind the last
    batch with their evidence, and the last batch. Void unless a commit lists the segments.

    `tail`: the tail of the range alone, from `CopyTask.window_start` on. None when no tail was requested or the tail is
    empty. `stamps`: see `backup.stamps`; None when the task looks for no stamps.
    """

    segments: tuple[Segment, ...]
    holes: tuple[Hole, ...]
    gaps: tuple[Gap, ...] = ()
    last_batch: LastBatch | None = None
    tail: StretchTail | None = None
    stamps: ObservedStamps | None = None


class RangeReads:
    """The reads of the cluster for one range. After `begin`, the first fetch is on its way: the broker works on the
    fetch while the worker writes the previous range."""

    def __init__(self, task: CopyTask, *, ends: BackupEnds, pack: PackWriter | None = None) -> None:
        _, target_bytes = _destination(ends.store, pack)
        self._lease = rate_lease.read_lease()
        pace = self._lease or Unlimited(_chunk_bytes(target_bytes))
        self._reader = PartitionReader(shared_router(ends.kafka), on_throttle=meter.throttle, pace=pace)
        reading = _reading(task)
        self._first = reading if task.border is None else _around(reading, task.border)
        self._begun: Iterator[Item] | None = None

    def begin(self) -> None:
        """Send the first fetch, except under a rate limit: a lease pays for one fetch at a time."""
        if self._lease is None:
            self._begun = self._reader.begin_task(self._first)

    def __call__(self, task: ReadTask) -> Iterator[Item]:
        started, self._begun = self._begun, None
        return started if started is not None and task == self._first else self._reader.read_task(task)


def start_reads(task: CopyTask, *, ends: BackupEnds, pack: PackWriter) -> RangeReads:
    """The reads of one of many ranges, started before the turn of the range."""
    reads = RangeReads(task, ends=ends, pack=pack)
    reads.begin()
    return reads


def copy_range(
    task: CopyTask, *, ends: BackupEnds, pack: PackWriter | None = None, reads: RangeReads | None = None
) -> BackupReceipt:
    """Copy the task's range, into `pack` if given, and return the receipt. May run twice: every attempt writes under
    object names of its own. `reads`: the reads of the range, if already started.

    Raises the errors of the reader and the store; nothing of the range is committed in such a case.
    """
    return copy_range_with(task, reads or RangeReads(task, ends=ends, pack=pack), ends=ends, pack=pack)


TaskReader = Callable[[ReadTask], Iterator[Item]]


def copy_range_with(
    task: CopyTask, read: TaskReader, *, ends: BackupEnds, pack: PackWriter | None = None
) -> BackupReceipt:
    """As `copy_range`, with `read` as the function that reads a task."""
    objects, target_bytes = _destination(ends.store, pack)
    reading = _reading(task)
    if task.border is not None:
        check_border(read, reading, task.border)
    last_batch: LastBatch | None = None
    fold = None if task.window_start == NO_WINDOW else TailFold(window_start=task.window_start)
    stamps = stamp_fold(task)
    writer = SegmentWriter(
        store=objects,
        target_bytes=target_bytes,
        layout=ends.layout,
        log_range=task.range,
        topic_id=task.topic_id,
        compression=ends.compression,
        tail=fold,
    )
    holes: list[Hole] = []
    gaps: list[Gap] = []
    with writer:
        for item in meter.count_items(read(reading)):
            match item:
                case Hole():
                    holes.append(item)
                    writer.skip_to(item.end)
                case Gap():
                    gaps.append(item)
                case Chunk():
                    writer.append(item)
                    if fold is not None:
                        fold.observe(item.batches)
                    if stamps is not None:
                        stamps.observe(item.data, item.batches)
                    last_batch = LastBatch.of(item.batches[-1])
        segments = pack.with_places(writer.close()) if pack else writer.close()
    outside = tuple(_outside(gaps, segments))
    return BackupReceipt(
        segments=segments,
        holes=tuple(holes),
        gaps=outside,
        last_batch=last_batch,
        tail=_tail_or_none(fold),
        stamps=None if stamps is None else stamps.observed,
    )


def _tail_or_none(fold: TailFold | None) -> StretchTail | None:
    tail = StretchTail() if fold is None else fold.stretch_tail()
    return None if tail.is_empty else tail


def _destination(store: Store, pack: PackWriter | None) -> tuple[ObjectSink, int]:
    return (pack, TARGET_SEGMENT_BYTES) if pack else paced_destination(store)


def paced_destination(store: Store) -> tuple[ObjectSink, int]:
    """The destination of segments at the write rate of the running task, and the target size of a segment."""
    if (pace := rate_lease.write_lease()) is None:
        return store, TARGET_SEGMENT_BYTES
    return PacedStore(store, pace), object_bytes(store, pace.bytes_per_s, most=TARGET_SEGMENT_BYTES)


def _chunk_bytes(target_bytes: int) -> int:
    """Bytes to read at once: a segment ends only between two chunks."""
    return min(FETCH_BYTES, max(MIB, target_bytes // 4))


def _reading(task: CopyTask) -> ReadTask:
    return ReadTask(
        range=task.range,
        topic_id=UUID(task.topic_id) if task.topic_id else None,
        planned_epoch=task.leader_epoch,
        was_compacted=task.was_compacted,
        owns_start=task.is_first,
        reach_back=task.is_first,  # no stored batch reaches over the position: a batch that does is new
    )


def _outside(gaps: Sequence[Gap], segments: Sequence[Segment]) -> Iterator[Gap]:
    """The gaps that no segment accounts for: gaps between two segments. A gap between batches of one segment belongs to
    the segment."""
    for gap in gaps:
        if not any(segment.first_offset <= gap.start and gap.end <= segment.last_offset for segment in segments):
            yield gap


def check_border(read: TaskReader, task: ReadTask, border: LastBatch) -> None:
    """Check that the log still holds the batch `border`, the last batch in the backup, before the copy continues.

    Leader epochs reveal a log that a new leader has cut back (see `backup.log_truncation`). Leader epochs do
    not reveal a broker with a disk put back to an older state that leads in the same epoch again. Before topic ids
    (Kafka 2.8), leader epochs do not reveal a topic created again either: its offsets soon reach the old ones, and only
    the records differ.

    A log that has deleted the batch meanwhile is accepted. Raises `SourceTruncated`, or `TopicReplaced` for a topic
    without an id, and the errors of `read`.
    """
    for item in read(_around(task, border)):
        if isinstance(item, Hole):
            return
        if isinstance(item, Chunk):
            if LastBatch.of(item.batches[0]) == border:
                return
            break
    raise _another_log(task.range, border, has_id=task.topic_id is not None)


def _around(task: ReadTask, border: LastBatch) -> ReadTask:
    where = replace(task.range, start=border.last_offset, end=border.last_offset + 1)
    return replace(task, range=where, reach_back=True)


def _another_log(log_range: LogRange, border: LastBatch, *, has_id: bool) -> SourceTruncated | TopicReplaced:
    key = log_range.topic_partition
    message = f"{key} does not have the last batch of the backup, at offset {border.last_offset}: "
    hint = f"keep this backup, and continue in a new one: offsite backup run --backup NEW --topics {key.topic}"
    if has_id:
        return SourceTruncated(f"{message}was the disk of a broker set back to an older state?", hint=hint)
    return TopicReplaced(f"{message}the topic was created again, or its log was cut back", hint=hint)
