"""Appends to one target partition of a restore, behind what earlier attempts at it have appended already.

How an attempt can know which of its records are in the log, though a crash leaves no list of them:

The restore point and the plan alone say which records come, in which order, and where their batches end. So every
attempt would write the same log, and the number of records in the target says how far the earlier ones came, if the
target holds a beginning of that log and nothing else. It does, because each attempt writes as an idempotent producer
(KIP-98): a batch carries the producer's id and the sequence number of its first record, and the leader takes it whole
or not at all, behind the batch before it, and once, however often it is sent. And because attempts shut each other out:
all share one producer id, and a later one has the higher epoch (see `copy.restore.attempt`). Its first batch starts the
sequence anew under that epoch, and from then on the leader refuses whoever still writes under a lower one (KIP-360).

What an earlier attempt still appends before that first batch is looked for: the end of the log is asked for again when
all that was there has passed, once more right before the first batch goes out, and each acknowledgement tells at which
offset its batch stands. An end or an offset that is not the expected one stops the attempt; whether the topic is made
anew or left alone follows from who wrote there. Those who are no attempt at all are found by comparing the last batches
that are there with those that should be.

The map of source to target offsets has no other source either: batches that are there are mapped as they pass, by
counting from where the target ended before the first attempt; the others where they have to be acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol, Self

from offsite.copy.restore.attempt import WriteAttempt
from offsite.kafka.appending.lane import Lanes
from offsite.kafka.appending.log_writer import LogWriter
from offsite.kafka.net.routing import Router
from offsite.kafka.offsets import settled_end_offset
from offsite.kafka.reader import PartitionReader
from offsite.log.chunk import Chunk
from offsite.log.difference import record_content
from offsite.log.offset_map import OffsetMapBuilder
from offsite.log.range import LogRange
from offsite.log.records.batch_records import iterate
from offsite.log.records.record import Record
from offsite.model.errors import OffsiteError
from offsite.model.journal import decided

COMPARED_BATCHES = 8
"""Batches at the end of the target that are compared: whatever others wrote came at the end."""

Runs = Sequence[tuple[int, int]]
"""Source offsets, as pairs of (first offset, count) in rising order."""


class TargetBatch(Protocol):
    """A batch without gaps that belongs into the target partition. Encoded or decoded only where that is needed."""

    @property
    def records(self) -> int:
        """Number of records in the batch."""

    @property
    def runs(self) -> Runs:
        """Source offsets of the records; empty where no offset map is kept."""

    def encoded(self) -> bytearray | memoryview:
        """The batch in memory that the writer may change and keep."""

    def decoded(self) -> Sequence[Record]:
        """The records, at any offsets."""


class TargetPartitionWriter:
    """The writer of the partition of `attempt`: takes all its batches, in order, and appends those that no earlier
    attempt appended.

    `offset_map` learns of every record where it is. The partition held nothing of the restore before the first attempt,
    and one chain of batches at a time is written to it. Building it waits for the end of the log to stand still; raises
    what that raises.
    """

    def __init__(
        self,
        router: Router,
        attempt: WriteAttempt,
        *,
        offset_map: OffsetMapBuilder | None = None,
        lanes: Lanes | None = None,
    ) -> None:
        self._router = router
        self._attempt = attempt
        self._map = offset_map
        self.target = attempt.target
        self.records = 0
        """How many were taken, whoever appended them."""
        self.appended_bytes = 0
        """Size of the batches that this attempt appended."""
        self.next_offset = attempt.start
        """Where the next record belongs: behind all that were there or were sent."""
        self._log_end = settled_end_offset(router, self.target, start=attempt.start)
        self._resumes = True
        self._last_there: deque[tuple[int, TargetBatch]] = deque(maxlen=COMPARED_BATCHES)
        self._producer = attempt.producer()
        self._writer = LogWriter(
            router, self.target, at=self._log_end, unexpected=self._unexpected, guard=attempt.guard, lanes=lanes
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
        """Append the next batch unless it is there. May block until a batch before it is acknowledged.

        Raises `WriterFenced` when a newer attempt has begun, `TargetDisturbed` or `TargetNotEmpty` when the target
        holds anything else than it should, and what the broker raises.
        """
        self.records += batch.records
        if self._resumes and self._is_there(batch.records):
            self._last_there.append((self.next_offset, batch))
            self._place(batch.records, batch.runs)
        else:
            self._append(batch)

    def finish(self) -> None:
        """Return when everything is acknowledged, and nothing more is there than what was taken. Raises as `take`."""
        self._writer.flush()
        self._end_resume()

    def _is_there(self, count: int) -> bool:
        """Whether the log goes on for `count` records. Once it does not, no later batch is there either."""
        end = self.next_offset + count
        if end > self._log_end:
            self._log_end = settled_end_offset(self._router, self.target, start=self._log_end)
        if end > self._log_end:
            self._end_resume()
        return self._resumes

    def _end_resume(self) -> None:
        """All that earlier attempts appended has passed: from here on this one appends."""
        if not self._resumes:
            return
        self._resumes = False
        if self.next_offset < self._log_end:  # in the middle of a batch, where no attempt can end
            raise self._attempt.unexpected(self.next_offset, end=self._log_end)
        if self._last_there:
            self._compare()
            why = "the target holds what an earlier attempt wrote"
            decided("resume", why=why, topic=self.target.topic, partition=self.target.partition, start=self._log_end)

    def _compare(self) -> None:
        """Whether the last batches that are there hold the records that they should."""
        expected = dict(self._last_there)
        first, target = self._last_there[0][0], self.target
        self._last_there.clear()
        there = LogRange(topic=target.topic, partition=target.partition, start=first, end=self._log_end)
        for item in PartitionReader(self._router).read(there, reach_back=True):  # a large one may begin before it
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
        self._writer.batch(encoded, batch.records, self._producer)
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


def _holds_only(expected: Sequence[Record], found: Iterable[Record], *, start: int) -> bool:
    """Whether each record `found` at or after `start` is the one of `expected`, which begin there. Those that the log
    cleaner took out meanwhile are no difference."""
    return all(
        record.offset - start < len(expected)
        and record_content(expected[record.offset - start]) == record_content(record)
        for record in found
    )
