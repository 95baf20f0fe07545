"""What transaction coordinators say in `__transaction_state`: one record for each change of a transaction (KIP-98).

A coordinator writes *prepare* durably before it sends the first commit or abort marker to any partition, and *complete*
after the last one has been acknowledged by all in-sync replicas.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class TransactionStatus(IntEnum):
    """The status of a transactional id, by Kafka's own numbers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def is_preparing(self) -> bool:
        """Whether markers may be on their way: some partitions may have theirs and others not."""
        return self in _PREPARING


_PREPARING = frozenset(
    {TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT, TransactionStatus.PREPARE_EPOCH_FENCE}
)


class TransactionChange(NamedTuple):
    """A record of `__transaction_state`: `position` is its offset in partition `log` of that topic. `status` is None
    for a tombstone: the coordinator has forgotten the transactional id. `producer_id` is -1 then."""

    log: int
    position: int
    transactional_id: str
    producer_id: int
    epoch: int
    status: TransactionStatus | None


class ListedTransaction(NamedTuple):
    """A transactional id as its coordinator lists it (ListTransactions, KIP-664)."""

    transactional_id: str
    producer_id: int
    status: TransactionStatus
