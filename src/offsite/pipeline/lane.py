"""One target partition of a repartitioned topic: records come in one by one, leave as batches, and are counted.

Where a batch ends follows from the records alone, and a broker takes a batch whole or not at all: so an earlier attempt
ended where one of these batches ends, and what it wrote is passed over by counting.
"""

from __future__ import annotations

from collections import deque
from typing import Self

from offsite.kafka.config import KafkaConfig
from offsite.kafka.end_offset import settled_end_offset
from offsite.kafka.routing import shared_router
from offsite.kafka.writer import PartitionWriter
from offsite.log.range import TopicPartition
from offsite.log.record import Record
from offsite.log.records import encode, renumber
from offsite.pipeline.restore_copy import foreign_records
from offsite.pipeline.restore_plan import REPARTITIONED_BATCH_BYTES

_MAX_BATCH_RECORDS = 10_000
"""Keeps the memory of tiny records, decoded, in proportion to that of their batch."""
_RECORD_OVERHEAD_BYTES = 32
_HEADER_OVERHEAD_BYTES = 8


class Lane:
    """Writes `target`, which ended at `start` before the restore. A record larger than a batch travels alone."""

    def __init__(self, kafka: KafkaConfig, target: TopicPartition, *, start: int) -> None:
        router = shared_router(kafka)
        self.target = target
        self.resumed_records = settled_end_offset(router, target, start=start) - start
        self.records = self.bytes = 0
        self._written = self.resumed_records
        self._next_target = start
        self._sent: deque[int] = deque()
        self._open: list[Record] = []
        self._open_bytes = self._codec = 0
        self._writer = PartitionWriter(router, target, on_ack=self._on_ack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def add(self, record: Record, codec: int) -> None:
        """Take the next record, from a batch of `codec`. May block until a batch before it is acknowledged.

        Raises `TargetNotEmpty`, and what the broker raises.
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
        if self._written:
            raise foreign_records(self.target)

    def _close_batch(self) -> None:
        records, self._open, self._open_bytes = self._open, [], 0
        self.records += len(records)
        if self._written >= len(records):
            self._written -= len(records)
            self._next_target += len(records)
        elif self._written:
            raise foreign_records(self.target)
        else:
            batch = encode(renumber(records), codec=self._codec)
            self.bytes += len(batch)
            self._sent.append(len(records))
            self._writer.send(batch)

    def _on_ack(self, _index: int, base_offset: int) -> None:
        if base_offset != self._next_target:
            raise foreign_records(self.target)
        self._next_target += self._sent.popleft()


def _size_bytes(record: Record) -> int:
    """At least what the record takes in a batch."""
    _, _, _, key, value, headers = record
    size_bytes = _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    if headers:
        size_bytes += sum(len(name) * 4 + len(held or b"") + _HEADER_OVERHEAD_BYTES for name, held in headers)
    return size_bytes
