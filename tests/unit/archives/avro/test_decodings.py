"""Our decoding against fastavro's: the same records from the same bytes, and from others nothing but errors."""

from __future__ import annotations

import random
from hashlib import sha256

import pytest

from offsite.archives.avro.decoding import ForeignDecoding, OwnDecoding
from offsite.archives.avro.encoding import PLAIN_SCHEMA, SCHEMA, RecordEncoding, encode_schema, full_tails, plain_tails
from offsite.archives.indexed.writing import Losses
from offsite.log.range import LogRange, TopicPartition
from offsite.log.records.record import Record
from offsite.log.records.record_columns import RecordColumns
from tests.archive_records import TIME_MS, binary_header, odd_records, plain_records

SCHEMAS = {"full": SCHEMA, "plain": PLAIN_SCHEMA}
ORDERS = TopicPartition(topic="orders", partition=0)
PLAIN_ODDITIES = [
    *plain_records(0, 9),
    Record(9, -1, 0, None, b"", (("a", b"1"), ("größe", b""))),
    Record(1 << 62, 0, 0, b"", b"v"),
]
ODDITIES = [*odd_records(), binary_header(1 << 40)]


def _block(records: list[Record], *, is_plain: bool) -> bytes:
    losses = Losses(log_range=LogRange(topic="orders", partition=0, start=0, end=1 << 63), lossy=False)
    tails = plain_tails(losses) if is_plain else full_tails
    return RecordEncoding(topic="orders", partition=0, tails=tails).encode(RecordColumns.of(records))


@pytest.mark.parametrize(("records", "is_plain"), [(ODDITIES, False), (PLAIN_ODDITIES, False), (PLAIN_ODDITIES, True)])
def test_both_give_the_records_that_were_encoded(records: list[Record], is_plain: bool) -> None:
    block = _block(records, is_plain=is_plain)
    own, foreign = OwnDecoding(ORDERS, is_plain=is_plain), ForeignDecoding(ORDERS, PLAIN_SCHEMA if is_plain else SCHEMA)
    assert own.decode(block, len(records)) == records
    assert foreign.decode(block, len(records)) == records


def test_a_map_in_several_parts_with_their_sizes_is_read() -> None:
    """As writers may that do not know the number of entries before; of a name that comes twice the last counts."""
    begin = _block([Record(7, TIME_MS, 0, None, b"v")], is_plain=True).removesuffix(b"\x02")
    block = begin + b"\x00" + b"\x01\x08\x02a\x021" + b"\x04\x02b\x022\x02a\x023" + b"\x00"
    records = [Record(7, TIME_MS, 0, None, b"v", (("a", b"3"), ("b", b"2")))]
    assert OwnDecoding(ORDERS, is_plain=True).decode(block, 1) == records
    assert ForeignDecoding(ORDERS, PLAIN_SCHEMA).decode(block, 1) == records


@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize("count", [-1, 1])
def test_too_many_and_too_few_records_are_refused(is_plain: bool, count: int) -> None:
    block, records = _block(PLAIN_ODDITIES, is_plain=is_plain), len(PLAIN_ODDITIES) + count
    for decoding in (
        OwnDecoding(ORDERS, is_plain=is_plain),
        ForeignDecoding(ORDERS, PLAIN_SCHEMA if is_plain else SCHEMA),
    ):
        with pytest.raises(ValueError, match="records"):
            decoding.decode(block, records)


def test_records_of_another_partition_are_named() -> None:
    block = _block([Record(7, TIME_MS, 0, None, b"v")], is_plain=False)
    of = TopicPartition(topic="orders", partition=1)
    for decoding in (OwnDecoding(of, is_plain=False), ForeignDecoding(of, SCHEMA)):
        with pytest.raises(ValueError, match="offset 7 is of orders/0, not of orders/1"):
            decoding.decode(block, 1)


@pytest.mark.parametrize("is_plain", [False, True])
def test_bytes_that_changed_are_an_error_or_records_but_nothing_worse(is_plain: bool) -> None:
    records = PLAIN_ODDITIES if is_plain else ODDITIES[:6]
    block, own = _block(records, is_plain=is_plain), OwnDecoding(ORDERS, is_plain=is_plain)
    chance = random.Random(1)
    refused = 0
    for _ in range(5_000):
        changed = bytearray(block)
        for _ in range(chance.randint(1, 3)):
            changed[chance.randrange(len(block))] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF))
        del changed[chance.choice((len(block), chance.randrange(len(block)))) :]
        try:
            assert len(own.decode(changed, len(records))) == len(records)
        except ValueError:
            refused += 1
    assert 2_500 < refused < 5_000


def test_the_schemas_in_files_never_change() -> None:
    """Earlier files have these bytes. With another text, a damaged file of an earlier version would be unreadable."""
    assert {name: sha256(encode_schema(schema)).hexdigest()[:16] for name, schema in SCHEMAS.items()} == {
        "full": "814cd9ead3ea521d",
        "plain": "036735693e5dc142",
    }
