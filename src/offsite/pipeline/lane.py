"""One target partition of a repartitioned topic: records come in one by one, leave as batches, and are counted.

Where a batch ends follows from the records alone, and a broker takes a batch whole or not at all: so an earlier attempt
ended where one of these batches ends, and what it wrote is passed over (see `restore_resume`).
"""

from __future__ import annotations

from collections import deque
from typing import Self

from offsite.kafka.routing import Router
from offsite.kafka.writer import PartitionWriter
from offsite.log.range import TopicPartition
from offsite.log.record import Record
from offsite.log.records import encode, renumber
from offsite.pipeline.restore_attempt import WriteAttempt
from offsite.pipeline.restore_plan import REPARTITIONED_BATCH_BYTES
from offsite.pipeline.restore_resume import AlreadyThere

_MAX_BATCH_RECORDS = 10_000
"""Keeps the memory of tiny records, decoded, in proportion to that of their batch."""
_RECORD_OVERHEAD_BYTES = 32
_HEADER_OVERHEAD_BYTES = 8


class Lane:
    """Writes `target`, which ended at `start` before the restore. A record larger than a batch travels alone."""

    def __init__(self, router: Router, target: TopicPartition, attempt: WriteAttempt, *, start: int) -> None:
        self.target = target
        self.records = self.bytes = 0
        self._there = AlreadyThere(router, target, attempt, start=start)
        self._next_target = start
        self._sent: deque[int] = deque()
        self._open: list[Record] = []
        self._open_bytes = self._codec = 0
        self._writer = PartitionWriter(
            router, target, on_ack=self._on_ack, producer=attempt.producer(), guard=attempt.guard
        )

    @property
    def resumed_records(self) -> int:
        """Written by an earlier attempt."""
        return self._there.records

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def add(self, record: Record, codec: int) -> None:
        """Take the next record, from a batch of `codec`. May block until a batch before it is acknowledged.

        Raises `WriterFenced`, `TargetDisturbed`, `TargetNotEmpty`, and what the broker raises.
        """
        size_bytes = _size_bytes(record)
        full = self._open_bytes + size_bytes > REPARTITIONED_BATCH_BYTES or len(self._open) == _MAX_BATCH_RECORDS
        if self._open and (full or codec != self._codec):
            self._close_batch()
        self._codec = codec
        self._open.append(record)
        self._open_bytes += size_bytes

    def finish(self) -> None:
        """Return when everything is acknowledged. Raises as `add`."""
        if self._open:
            self._close_batch()
        self._writer.flush()
        self._there.finish()

    def _close_batch(self) -> None:
        records, self._open, self._open_bytes = self._open, [], 0
        self.records += len(records)
        if self._there.takes(len(records), lambda: records):
            self._next_target += len(records)
        else:
            batch = encode(renumber(records), codec=self._codec)
            self.bytes += len(batch)
            self._writer.starts_at(self._there.end)
            self._sent.append(len(records))
            self._writer.send(batch)

    def _on_ack(self, _index: int, base_offset: int) -> None:
        if base_offset != self._next_target:
            raise self._there.elsewhere(base_offset, self._next_target)
        self._next_target += self._sent.popleft()


def _size_bytes(record: Record) -> int:
    """At least what the record takes in a batch."""
    _, _, _, key, value, headers = record
    size_bytes = _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    if headers:
        size_bytes += sum(len(name) * 4 + len(held or b"") + _HEADER_OVERHEAD_BYTES for name, held in headers)
    return size_bytes
