"""Records of `__transaction_state`, as brokers wrote them."""

from __future__ import annotations

import pytest

from offsite.log.records.record import Record
from offsite.log.transaction_state import TransactionChange, TransactionStatus, parse_transaction_change
from offsite.model.errors import DamagedBatch

# Written by a broker of 4.1.1 (transaction.version 2) for a producer of librdkafka.
KEY = bytes.fromhex("0000 0002 7735")
EMPTY = bytes.fromhex("0001 0000000000000003 0000 0000ea60 00 00 000001a206ab37a2 ffffffffffffffff 00")
ONGOING = bytes.fromhex(
    "0001 0000000000000003 0000 0000ea60 01 02 13 5f5f636f6e73756d65725f6f666673657473 02 00000001 00"
    "000001a206ab37c4 000001a206ab37c4 00"
)
# The same in version 0, as brokers before 4.0 write it: plain lengths, no tagged fields.
ONGOING_0 = bytes.fromhex(
    "0000 0000000000000003 0000 0000ea60 01 00000001 0012 5f5f636f6e73756d65725f6f666673657473 00000001 00000001"
    "000001a206ab37c4 000001a206ab37c4"
)
STATUS_AT = 16


def record(key: bytes | None = KEY, value: bytes | None = ONGOING) -> Record:
    return Record(7, 0, 0, key, value)


def ending(status: int) -> bytes:
    return ONGOING[:STATUS_AT] + bytes([status]) + ONGOING[STATUS_AT + 1 :]


@pytest.mark.parametrize(
    ("value", "status"),
    [(EMPTY, TransactionStatus.EMPTY), (ONGOING, TransactionStatus.ONGOING), (ONGOING_0, TransactionStatus.ONGOING)],
)
def test_a_change_names_its_producer_and_what_it_came_to(value: bytes, status: TransactionStatus) -> None:
    assert parse_transaction_change(record(value=value), 3) == TransactionChange(3, 7, "w5", 3, 0, status)


@pytest.mark.parametrize("status", list(TransactionStatus))
def test_every_status_is_known(status: TransactionStatus) -> None:
    assert parse_transaction_change(record(value=ending(status)), 3).status is status


def test_a_tombstone_forgets_the_id() -> None:
    assert parse_transaction_change(record(value=None), 3) == TransactionChange(3, 7, "w5", -1, -1, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, ONGOING),
        (KEY[:3], ONGOING),
        (b"\0\1" + KEY[2:], ONGOING),
        (b"\0\0\x7f\xff" + KEY[4:], ONGOING),
        (b"\0\0\xff\xff", ONGOING),
        (b"\0\0\0\2\xff\xff", ONGOING),
        (KEY + b"x", ONGOING),
        (KEY, b""),
        (KEY, ONGOING[:STATUS_AT]),
        (KEY, b"\0\2" + ONGOING[2:]),
        (KEY, ending(8)),
        (KEY, ending(255)),
    ],
)
def test_what_cannot_be_read_is_never_guessed(key: bytes | None, value: bytes) -> None:
    with pytest.raises(DamagedBatch, match=r"offset 7 of __transaction_state/3"):
        parse_transaction_change(record(key, value), 3)
