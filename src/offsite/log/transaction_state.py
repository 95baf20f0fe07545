"""What transaction coordinators say in `__transaction_state`: one record for each change of a transaction (KIP-98).

A coordinator writes *prepare* durably before it sends the first commit or abort marker to any partition, and *complete*
after the last one has been acknowledged by all in-sync replicas.

Formats: Kafka's TransactionLogKey (version 0) and TransactionLogValue (version 0, and 1, which is flexible by KIP-482).
What is read here stands at the beginning of a value, before the first field whose encoding the versions differ in.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from offsite.log.records.record import Record
from offsite.model.errors import DamagedBatch

KEY_VERSION = 0
VALUE_VERSIONS = (0, 1)
_I16, _KEY = struct.Struct(">h"), struct.Struct(">hh")
_VALUE = struct.Struct(">hqhib")  # version, producer id, epoch, timeout, status; then partitions and times
_NOBODY = -1


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


def parse_transaction_change(record: Record, log: int) -> TransactionChange:
    """The change that a record of partition `log` of `__transaction_state` tells of.

    Raises `DamagedBatch` for a record that is cut, and for one of a version, or with a status, that is not known:
    nobody could say then what the record before it is worth.
    """
    try:
        transactional_id = _transactional_id(record.key or b"")
        if record.value is None:
            return TransactionChange(log, record.offset, transactional_id, _NOBODY, _NOBODY, None)
        return TransactionChange(log, record.offset, transactional_id, *_state(record.value))
    except (struct.error, ValueError) as error:
        raise DamagedBatch(
            f"the record at offset {record.offset} of __transaction_state/{log} cannot be read: {error}"
        ) from error


def _transactional_id(key: bytes) -> str:
    version, length = _KEY.unpack_from(key)
    if version != KEY_VERSION:
        raise ValueError(f"its key is of version {version}")
    if length < 0 or _KEY.size + length != len(key):
        raise ValueError(f"its key says that it holds {length} bytes, and holds {len(key) - _KEY.size}")
    return key[_KEY.size :].decode()


def _state(value: bytes) -> tuple[int, int, TransactionStatus]:
    (version,) = _I16.unpack_from(value)
    if version not in VALUE_VERSIONS:
        raise ValueError(f"its value is of version {version}")
    _, producer_id, epoch, _, status = _VALUE.unpack_from(value)
    return producer_id, epoch, TransactionStatus(status)
