"""Small records of one partition, in one order for everybody: a log with several writers, and transactions in sequence.

`OrderedTransactions`: every commit before the next transaction, as ksqlDB writes commands. A single transactional id
serves all transactions. Taking over the id shuts out the earlier owner and ends the earlier owner's open transaction
(KIP-98), so a killed run leaves nothing half written for a later run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.coordinators import TransactionCoordinators
from offsite.kafka.net.routing import Router
from offsite.kafka.producer import Producer
from offsite.kafka.protocol.request import Request
from offsite.kafka.transaction_replay import TIMEOUTS_MS
from offsite.kafka.transaction_requests import (
    CoordinatorAnswer,
    add_partition_request,
    end_request,
    init_producer_request,
)
from offsite.kafka.writer import PartitionWriter
from offsite.log.range import Chunk, Hole, LogRange, TopicPartition
from offsite.log.records.batch_records import decode, encode
from offsite.log.records.record import CREATE_TIME, Record, RecordHeaders
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import BadOption, SourceTruncated


class SmallLog:
    """One partition. The object keeps nothing between calls. Both ends of the log may move meanwhile."""

    def __init__(self, router: Router, where: TopicPartition, *, clock: Clock | None = None) -> None:
        self._router, self._admin, self._where = router, ClusterAdmin(router), where
        self._clock = clock or SystemClock()

    def start(self) -> int:
        """Return the log start offset."""
        return self._admin.start_offsets([self._where])[self._where]

    def end(self) -> int:
        """Return the high watermark."""
        return self._admin.end_offsets([self._where])[self._where]

    def read(self, start: int, end: int) -> Iterator[Record]:
        """Yield the records at `[start, end)`, without transaction markers. Raises `SourceTruncated` where the log no
        longer has the records, and the errors of a reader."""
        span = LogRange(topic=self._where.topic, partition=self._where.partition, start=start, end=end)
        for item in self._admin.reader().read(span, reach_back=True):
            if isinstance(item, Hole):
                raise SourceTruncated(f"{self._where} lost offsets {item.start} to {item.end - 1} while it was read")
            if isinstance(item, Chunk):
                data = (header for header in item.batches if not header.is_control)
                records = (record for header in data for record in decode(header.view(item.data), header))
                yield from (record for record in records if start <= record.offset < end)

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: RecordHeaders = (),
        producer: Producer | None = None,
    ) -> int:
        """Append a record and return the offset, once all in-sync replicas have the record, through outages.
        `producer`: the writer, a new producer by default. Raises the errors of `PartitionWriter`; after an error the
        record may be in the log all the same."""
        offsets: list[int] = []
        record = Record(0, self._clock.now_ms(), CREATE_TIME, key, value, headers)
        with PartitionWriter(
            self._router, self._where, on_ack=lambda _, offset: offsets.append(offset), producer=producer
        ) as writer:
            writer.send(encode([record]))
            writer.flush()
        return offsets[-1]


class OrderedTransactions:
    """Holds the transactional id `name`, used by nobody else. Every method raises `KafkaUnavailable`, `Denied`, and
    `TransactionLost` or `WriterFenced` once another process has taken over the id."""

    def __init__(self, router: Router, where: TopicPartition, name: str, *, clock: Clock | None = None) -> None:
        self._where, self._name = where, name
        self._coordinators = TransactionCoordinators(router, clock or SystemClock())
        self._producer = self._take_over()
        self._offsets: list[int] = []
        self._writer = PartitionWriter(router, where, on_ack=lambda _, offset: self._offsets.append(offset))

    def commit(self, batches: Sequence[bytearray]) -> list[int]:
        """Commit one transaction with `batches` and return the base offsets. Without batches the transaction leaves
        only a marker. The marker takes the next offset, and is in the log before the next transaction begins."""
        self._ask(add_partition_request(self._producer, self._where), "beginning")
        self._offsets.clear()
        for batch in batches:
            self._writer.send(batch, producer=self._producer)
        self._writer.flush()
        self._ask(end_request(self._producer, committed=True), "committing")
        return list(self._offsets)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    def _take_over(self) -> Producer:
        for timeout_ms in TIMEOUTS_MS:
            requests = {self._name: init_producer_request(self._name, timeout_ms=timeout_ms)}
            producer = self._coordinators.ask(requests, doing=f"preparing transactions for {self._where}")[self._name]
            if producer is not None:
                return producer
        raise BadOption(
            f"the brokers allow no transaction of {TIMEOUTS_MS[-1]} ms", hint="raise transaction.max.timeout.ms"
        )

    def _ask(self, request: Request[CoordinatorAnswer[None]], doing: str) -> None:
        self._coordinators.ask({self._name: request}, doing=f"{doing} a transaction in {self._where}")
