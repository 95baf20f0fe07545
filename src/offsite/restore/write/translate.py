"""Repository → Kafka: one partition as one ordered chain, in a worker. Gaps are closed; the offset map records the new
offsets. A map is stored after all records are acknowledged: a stored map proves the records.

How an attempt knows which records are in the log, although a crash leaves no list:

1. The restore point and the plan alone determine the records, their order, and the ends of their batches. Every attempt
   would write the same log. If the target holds a beginning of this log and nothing else, the number of records in the
   target is the progress of the earlier attempts.
2. The target holds nothing else, because every attempt writes as an idempotent producer (KIP-98): a batch carries the
   producer's id and the sequence number of its first record. The leader takes a batch whole or not at all, behind the
   previous batch, and once, however often it is sent.
3. Attempts shut one another out: all share one producer id, and a later attempt has the higher epoch (see `attempt`).
   Its first batch starts the sequence again under the epoch; from then on the leader refuses writers under a lower
   epoch (KIP-360).

Records that an earlier attempt appends before this first batch are looked for: the end of the log is requested again
when all existing records have passed, once more right before the first batch is sent, and every acknowledgement tells
the offset of its batch. An unexpected end or offset stops the attempt; the producer of the unexpected records decides
whether the topic is created again or left alone. Records of other writers are found by a comparison of the last
existing batches with the expected ones.

The map of source to target offsets follows from the same counting. Existing batches are mapped as they pass, from the
target's end before the first attempt on; new batches are mapped to the offset that their acknowledgement must have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

from offsite.kafka.lane import Lanes
from offsite.kafka.log_writer import LogWriter
from offsite.kafka.offsets import settled_end_offset
from offsite.kafka.reader import PartitionReader
from offsite.log.batch import BatchHeader, scan
from offsite.log.difference import record_content
from offsite.log.offset_map import OffsetMapBuilder
from offsite.log.range import Chunk, LogRange
from offsite.log.records.batch_records import decode, iterate
from offsite.log.records.record import Record
from offsite.log.rewrite import filter_records, needs_reencode, reencode_dense
from offsite.model.errors import OffsiteError
from offsite.model.journal import decided
from offsite.points.record_rewrite import counts_of
from offsite.points.source_view import RecordBounds, SourceView
from offsite.restore.write.attempt import RestoreEnds, RestoreReceipt, RestoreSteps, WriteAttempt
from offsite.restore.write.plan import PartitionRestore

COMPARED_BATCHES = 8
"""Batches to compare at the end of the target: other writers wrote at the end."""

Runs = Sequence[tuple[int, int]]
"""Source offsets, as pairs of (first offset, count) in rising order."""


class TargetBatch(Protocol):
    """A batch without gaps for the target partition. Encoded or decoded only on demand."""

    @property
    def records(self) -> int:
        """Number of records in the batch."""

    @property
    def runs(self) -> Runs:
        """Source offsets of the records; empty without an offset map."""

    def encoded(self) -> bytearray | memoryview:
        """The batch in memory that the writer may change and keep."""

    def decoded(self) -> Sequence[Record]:
        """The records, at any offsets."""


class TargetPartitionWriter:
    """The writer of the partition of `attempt`: takes all its batches, in order, and appends the batches that no
    earlier attempt appended.

    `offset_map` learns the offset of every record. The partition held nothing of the restore before the first attempt,
    and one chain of batches at a time is written to the partition. The constructor waits for the end of the log to
    stand still, and raises the errors of the wait.
    """

    def __init__(
        self,
        attempt: WriteAttempt,
        *,
        offset_map: OffsetMapBuilder | None = None,
        lanes: Lanes | None = None,
    ) -> None:
        self._attempt = attempt
        self._map = offset_map
        self.target = attempt.target
        self.records = 0
        """Number of records taken, whichever attempt appended them."""
        self.appended_bytes = 0
        """Size of the batches that this attempt appended."""
        self.next_offset = attempt.start
        """The offset of the next record: behind all existing or sent records."""
        self._log_end = settled_end_offset(attempt.router, self.target, start=attempt.start)
        self._resumes = True
        self._last_there: deque[tuple[int, TargetBatch]] = deque(maxlen=COMPARED_BATCHES)
        self._producer = attempt.producer()
        self._writer = LogWriter(
            attempt.router, self.target, at=self._log_end, unexpected=self._unexpected, guard=attempt.guard, lanes=lanes
        )

    @property
    def resumed_records(self) -> int:
        """Number of the records that an earlier attempt appended."""
        return self._log_end - self._attempt.start

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def take(self, batch: TargetBatch) -> None:
        """Append the next batch unless present. May block until a previous batch is acknowledged.

        Raises `WriterFenced` when a newer attempt has begun, `TargetDisturbed` or `TargetNotEmpty` when the target
        holds unexpected records, and the errors of the broker.
        """
        self.records += batch.records
        if self._resumes and self._is_there(batch.records):
            self._last_there.append((self.next_offset, batch))
            self._place(batch.records, batch.runs)
        else:
            self._append(batch)

    def finish(self) -> None:
        """Return when everything is acknowledged, and the target holds no records besides the taken ones. Raises as
        `take`."""
        self._writer.flush()
        self._end_resume()

    def _is_there(self, count: int) -> bool:
        """Whether the log holds the next `count` records. After the first missing batch, no later batch is present
        either."""
        end = self.next_offset + count
        if end > self._log_end:
            self._log_end = settled_end_offset(self._attempt.router, self.target, start=self._log_end)
        if end > self._log_end:
            self._end_resume()
        return self._resumes

    def _end_resume(self) -> None:
        """All records of earlier attempts have passed: from here on this attempt appends."""
        if not self._resumes:
            return
        self._resumes = False
        if self.next_offset < self._log_end:  # in the middle of a batch, where no attempt can end
            raise self._attempt.unexpected(self.next_offset, end=self._log_end)
        if self._last_there:
            self._compare()
            why = "the target has records of an earlier attempt"
            decided("resume", why=why, topic=self.target.topic, partition=self.target.partition, start=self._log_end)

    def _compare(self) -> None:
        """Compare the last existing batches with the expected records."""
        expected = dict(self._last_there)
        first, target = self._last_there[0][0], self.target
        self._last_there.clear()
        log_range = LogRange(topic=target.topic, partition=target.partition, start=first, end=self._log_end)
        reader = PartitionReader(self._attempt.router)
        for item in reader.read(log_range, reach_back=True):  # a large batch may begin earlier
            if not isinstance(item, Chunk):
                continue
            for header in item.batches:
                batch = expected.get(header.base_offset)
                records = () if batch is None or not self._attempt.wrote(header) else batch.decoded()
                if not _holds_only(records, iterate(header.view(item.data), header), start=header.base_offset):
                    raise self._attempt.unexpected(header.base_offset, end=self._log_end)

    def _append(self, batch: TargetBatch) -> None:
        encoded = batch.encoded()
        self.appended_bytes += len(encoded)
        if self._writer.at != self.next_offset:
            self._writer.skip_to(self.next_offset)
        self._writer.send_batch(encoded, batch.records, self._producer)
        self._place(batch.records, batch.runs)

    def _unexpected(self, start: int, end: int) -> OffsiteError:
        return self._attempt.unexpected(start, end=end)

    def _place(self, count: int, runs: Runs) -> None:
        """The next `count` records stand at `next_offset`."""
        if self._map is not None:
            at = self.next_offset
            for source_start, run in runs:
                self._map.add(source_start, at, run)
                at += run
        self.next_offset += count


def _holds_only(expected: Sequence[Record], actual: Iterable[Record], *, start: int) -> bool:
    """Whether every record of `actual` at or after `start` equals the record of `expected`, which begin at `start`.
    Records removed by the log cleaner meanwhile are no difference."""
    return all(
        record.offset - start < len(expected)
        and record_content(expected[record.offset - start]) == record_content(record)
        for record in actual
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTask:
    """One chain to write. `target_start`: the end of the target partition before the restore's first attempt; `making`:
    the number of the making of the target topic (see `RestoreTargets`)."""

    partition: PartitionRestore
    target_start: int
    making: int = 1

    @property
    def title(self) -> str:
        return str(self.partition.target)


def translate_partition(
    task: RestoreTask, attempt: WriteAttempt, *, ends: RestoreEnds, lanes: Lanes | None = None
) -> RestoreSteps:
    """Bring the target partition to the plan's end and store its offset map. May run again after any crash, as a new
    attempt, or beside another run of the same task, which then ends.

    Raises `WriterFenced` when a newer attempt has begun, `TargetDisturbed` when an older attempt wrote after the
    beginning of this one, `TargetNotEmpty` when the target holds records of no attempt, and the errors of store and
    broker.
    """
    chain = task.partition.chain
    with attempt.judged():
        attempt.guard()  # the attempt may have begun long ago
        view = SourceView(chain, ends.store, read_committed=ends.read_committed, records=ends.records)
        offset_map = OffsetMapBuilder(source_start=chain.segments[0].start, target_start=task.target_start)
        size_bytes = 0
        with TargetPartitionWriter(attempt, offset_map=offset_map, lanes=lanes) as writer:
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
        target=task.partition.target,
        records=writer.records,
        resumed_records=writer.resumed_records,
        invisible_records=view.invisible_records,
        undecided=view.undecided,
        bytes=size_bytes,
        rewritten=counts_of([view.rewriting]),
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
