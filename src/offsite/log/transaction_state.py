"""The records of `__transaction_state`: transaction coordinators write one record per change of a transaction (KIP-98).

A coordinator writes *prepare* durably before the first commit or abort marker goes to any partition, and *complete*
after all in-sync replicas have acknowledged the last marker.

Formats: Kafka's TransactionLogKey (version 0) and TransactionLogValue (version 0, and 1, flexible by KIP-482). All
fields used here stand at the beginning of a value, before the first field with different encodings.
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
        """Whether markers may be on their way: some partitions may have a marker and some not."""
        return self in _PREPARING


_PREPARING = frozenset(
    {TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT, TransactionStatus.PREPARE_EPOCH_FENCE}
)


class TransactionChange(NamedTuple):
    """A record of `__transaction_state`: `position` is the offset in partition `log` of the topic. `status` is None for
    a tombstone: the coordinator has forgotten the transactional id, and `producer_id` is -1."""

    log: int
    position: int
    transactional_id: str
    producer_id: int
    epoch: int
    status: TransactionStatus | None


class ListedTransaction(NamedTuple):
    """A transactional id as listed by its coordinator (ListTransactions, KIP-664)."""

    transactional_id: str
    producer_id: int
    status: TransactionStatus


def parse_transaction_change(record: Record, log: int) -> TransactionChange:
    """The change in a record of partition `log` of `__transaction_state`.

    Raises `DamagedBatch` for a record that is cut, or with an unknown version or status. After such a record, the value
    of the record before would be uncertain.
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
        raise ValueError(f"its key has version {version}")
    if length < 0 or _KEY.size + length != len(key):
        raise ValueError(f"its key states {length} bytes, but has {len(key) - _KEY.size}")
    return key[_KEY.size :].decode()


def _state(value: bytes) -> tuple[int, int, TransactionStatus]:
    (version,) = _I16.unpack_from(value)
    if version not in VALUE_VERSIONS:
        raise ValueError(f"its value has version {version}")
    _, producer_id, epoch, _, status = _VALUE.unpack_from(value)
    return producer_id, epoch, TransactionStatus(status)
