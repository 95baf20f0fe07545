"""Transactions into one partition in sequence, every commit before the next transaction: as ksqlDB writes commands.

A single transactional id serves all transactions. Taking over the id shuts out the earlier owner and ends the earlier
owner's open transaction (KIP-98), so a killed run leaves nothing half written for a later run.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from offsite.kafka.net.routing import Router
from offsite.kafka.producer import Producer
from offsite.kafka.protocol.request import Request
from offsite.kafka.transactions.coordinators import TransactionCoordinators
from offsite.kafka.transactions.replay import TIMEOUTS_MS
from offsite.kafka.transactions.requests import (
    CoordinatorAnswer,
    add_partition_request,
    end_request,
    init_producer_request,
)
from offsite.kafka.writer import PartitionWriter
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import BadOption


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
