"""Kafka → repository: a bundle of ranges, in a worker. Raw batches in, segments and receipts out; commits nothing.

A large range is a bundle of its own, and its segments are objects. Small ranges are dealt out into bundles: a thousand
tasks of a few records would cost a thousand times the fixed cost of a task, and a thousand small objects. With many
small ranges, the segments of a bundle share one object (see `segments.pack`). A range that cannot be copied does not
stop the rest of its bundle.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from uuid import UUID

from offsite.backup.copy_plan import NO_WINDOW, PARTITION_ERRORS, CopyTask
from offsite.backup.stamps import ObservedStamps, stamp_fold
from offsite.engine import meter, rate_lease
from offsite.engine.runner import Done, Failed
from offsite.kafka.config import KafkaConfig
from offsite.kafka.net.routing import shared_router
from offsite.kafka.read_task import FETCH_BYTES, Item, ReadTask, Unlimited
from offsite.kafka.reader import PartitionReader
from offsite.log.batch import LastBatch
from offsite.log.range import Chunk, Gap, Hole, LogRange, TopicPartition
from offsite.log.transactions import StretchTail, TailFold
from offsite.model.errors import Denied, KafkaUnavailable, LeaderUnavailable, SourceTruncated, TopicReplaced
from offsite.model.ids import random_id
from offsite.model.journal import safe_trace
from offsite.model.names import named
from offsite.model.options import CompressionChoice
from offsite.model.units import MIB
from offsite.repository.layout import BackupLayout
from offsite.repository.segments.pack import PackWriter
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import TARGET_SEGMENT_BYTES, ObjectSink, SegmentWriter
from offsite.stores.store import Store
from offsite.stores.wrapped_store import PacedStore, object_bytes

SMALL_BYTES = 4 * MIB
"""A range of fewer bytes is small: its put costs about as much as its bytes."""
SMALL_OFFSETS = 10_000
"""A range of fewer offsets is small when sizes are unknown."""
BUNDLE_BYTES_MAX = 32 * MIB
"""The approximate weight of the ranges of a bundle: a bundle that fails is tried again as a whole."""
RANGE_BYTES = BUNDLE_BYTES_MAX // 500
"""The weight of a range besides its bytes, for its few milliseconds: 500 empty ranges make a bundle."""
BUNDLES_PER_SLOT = 1
AHEAD = 2
"""Ranges of a bundle with a first fetch sent before their turn: such a range holds a connection of its own."""
SILENT_MAX = 2
"""Partitions of a bundle that may end in minutes of waiting for their brokers."""


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


CopyOutcome = Done[BackupReceipt] | Failed
TaskReader = Callable[[ReadTask], Iterator[Item]]
OpenReads = Callable[[CopyTask, BackupEnds, PackWriter | None], TaskReader]
"""Opens the reads of one range, such as `RangeReads`."""


class RangeReads:
    """The reads of the cluster for one range. For a range of a pack, the first fetch is sent at once: the broker works
    on the fetch while the worker writes the previous range. Under a rate limit nothing is sent ahead: a lease pays for
    one fetch at a time."""

    def __init__(self, task: CopyTask, ends: BackupEnds, pack: PackWriter | None = None) -> None:
        _, target_bytes = _destination(ends.store, pack)
        lease = rate_lease.read_lease()
        pace = lease or Unlimited(_chunk_bytes(target_bytes))
        self._reader = PartitionReader(shared_router(ends.kafka), on_throttle=meter.throttle, pace=pace)
        reading = _reading(task)
        self._first = reading if task.border is None else _around(reading, task.border)
        self._begun = self._reader.begin_task(self._first) if pack is not None and lease is None else None

    def __call__(self, task: ReadTask) -> Iterator[Item]:
        started, self._begun = self._begun, None
        return started if started is not None and task == self._first else self._reader.read_task(task)


def copy_range(
    task: CopyTask, *, ends: BackupEnds, pack: PackWriter | None = None, read: TaskReader | None = None
) -> BackupReceipt:
    """Copy the task's range, into `pack` if given, and return the receipt. May run twice: every attempt writes under
    object names of its own. `read`: the reads of the range, if already open.

    Raises the errors of the reader and the store; nothing of the range is committed in such a case.
    """
    read = read or RangeReads(task, ends)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyBundle:
    """Ranges that one worker copies, in order. `numbers`: their indexes in the plan. `packed`: their segments share an
    object."""

    numbers: tuple[int, ...]
    tasks: tuple[CopyTask, ...]
    packed: bool

    @property
    def estimated_bytes(self) -> int:
        return sum(task.estimated_bytes for task in self.tasks)

    @property
    def title(self) -> str:
        return named([str(task.range.topic_partition) for task in self.tasks], most=1, of="ranges")


def bundle_copies(tasks: Sequence[CopyTask], *, slots: int, packed_from: int) -> tuple[CopyBundle, ...]:
    """`tasks` as bundles, the large ranges first and in their order. `slots`: number of bundles that can run at once;
    `packed_from`: number of small ranges from which on small ranges share objects."""
    small = [number for number, task in enumerate(tasks) if is_small(task)]
    if len(small) < packed_from:
        return tuple(CopyBundle(numbers=(n,), tasks=(task,), packed=False) for n, task in enumerate(tasks))
    is_dealt = set(small)
    alone = [CopyBundle(numbers=(n,), tasks=(task,), packed=False) for n, task in enumerate(tasks) if n not in is_dealt]
    return (*alone, *_dealt(tasks, small, slots))


def is_small(task: CopyTask) -> bool:
    if task.estimated_bytes == 0:
        return len(task.range) < SMALL_OFFSETS
    return task.estimated_bytes < SMALL_BYTES


def _dealt(tasks: Sequence[CopyTask], small: Sequence[int], slots: int) -> Iterator[CopyBundle]:
    """Deal the small ranges out, in rounds of `slots` bundles, and in turns within a round, like cards.

    Tasks of a plan go round the partitions: every bundle asks all leaders. The start of the plan ends first at any
    time, and can be committed. All rounds weigh the same, wherever the larger ranges stand in the plan.
    """
    weights = list(accumulate(tasks[number].estimated_bytes + RANGE_BYTES for number in small))
    count = max(1, min(max(slots * BUNDLES_PER_SLOT, -(-weights[-1] // BUNDLE_BYTES_MAX)), len(small) // 2))
    begin = 0
    for first in range(0, count, slots):
        at_once = min(slots, count - first)
        end = bisect_left(weights, weights[-1] * (first + at_once) // count) + 1
        for place in range(begin, min(begin + at_once, end)):
            numbers = tuple(small[place:end:at_once])
            packed = len(numbers) > 1  # a pack with one range would be an object without any other use
            yield CopyBundle(numbers=numbers, tasks=tuple(tasks[n] for n in numbers), packed=packed)
        begin = end


def copy_bundle(
    bundle: CopyBundle, *, ends: BackupEnds, base: int, open_reads: OpenReads = RangeReads
) -> tuple[CopyOutcome, ...]:
    """Copy the ranges, and return the outcomes in order. `base`: the newest commit when the run began. Raises errors
    that do not concern one range; nothing of the bundle counts in such a case."""
    if not bundle.packed:
        return tuple(
            Done(value=copy_range(task, ends=ends, read=open_reads(task, ends, None))) for task in bundle.tasks
        )
    with PackWriter(paced_destination(ends.store)[0], ends.layout.pack_key(base, random_id())) as pack:
        outcomes = tuple(_packed(bundle, ends, pack, open_reads))
        pack.close()
    return outcomes


def _packed(bundle: CopyBundle, ends: BackupEnds, pack: PackWriter, open_reads: OpenReads) -> Iterator[CopyOutcome]:
    """A broker that dies during a round affects hundreds of ranges, and every range would wait for minutes. After
    `SILENT_MAX` silent partitions the rest is left to the next run: it knows the missing brokers before it begins."""
    silent: set[TopicPartition] = set()
    for task, read in _opened_ahead(bundle.tasks, lambda task: open_reads(task, ends, pack)):
        if len(silent) >= SILENT_MAX:
            yield _not_tried(task, len(silent))
            continue
        try:
            yield Done(value=copy_range(task, ends=ends, pack=pack, read=read))
        except (*PARTITION_ERRORS, Denied) as error:
            if isinstance(error, KafkaUnavailable):
                silent.add(task.range.topic_partition)
            yield Failed(error=error, trace=safe_trace(error))


def _opened_ahead(
    tasks: Sequence[CopyTask], open_reads: Callable[[CopyTask], TaskReader]
) -> Iterator[tuple[CopyTask, TaskReader]]:
    """Tasks with their reads, in order. The first fetches are sent while earlier tasks are copied: otherwise a small
    range would spend most of its time waiting for its only answer."""
    ahead: deque[tuple[CopyTask, TaskReader]] = deque()
    for task in tasks:
        ahead.append((task, open_reads(task)))
        if len(ahead) > AHEAD:
            yield ahead.popleft()
    yield from ahead


def _not_tried(task: CopyTask, silent: int) -> Failed:
    error = LeaderUnavailable(
        f"{task.range.topic_partition} was not tried: {silent} partitions before it did not answer",
        hint="run again: the backup continues from there",
    )
    return Failed(error=error, trace="")
