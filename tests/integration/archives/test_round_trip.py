"""Repository → archive of each format → repository: the same records, or refused by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.archives.formats import WriteOptions
from offsite.log.codec import LZ4, NONE
from offsite.log.records.batch_records import encode
from offsite.log.records.record import CREATE_TIME, LOG_APPEND_TIME, Record
from offsite.model.errors import BadOption, NotRepresentable
from offsite.repository.snapshots.group_snapshot import get_group_snapshot
from offsite.upkeep.verification.run import verify_deep
from tests.batches import make_batch, make_control_batch, make_log
from tests.integration.archives.exchange import (
    ALL_FORMATS,
    ON_BUCKETS,
    Exchange,
    NewSegment,
    committed,
    group,
)
from tests.shared_spark import shared_spark

T_MS = 1_700_000_000_000

ORDINARY = [
    Record(0, T_MS, CREATE_TIME, b"k", b"v", ()),
    Record(1, T_MS - 5, CREATE_TIME, None, b"v", (("a", b"1"),)),
    Record(5, T_MS, CREATE_TIME, b"k", b"\xff\x00", (("a", b""), ("b", b"2"))),
]
"""What every format holds: a gap, times that fall, no key, bytes that are no text, headers."""

TRICKY = {
    "no value": Record(9, T_MS, CREATE_TIME, b"k", None),
    "empty key and value": Record(9, T_MS, CREATE_TIME, b"", b""),
    "no timestamp": Record(9, -1, CREATE_TIME, b"k", b"v"),
    "time zero": Record(9, 0, CREATE_TIME, b"k", b"v"),
    "time before 1970": Record(9, -1000, CREATE_TIME, b"k", b"v"),
    "time beyond any calendar": Record(9, 1 << 60, CREATE_TIME, b"k", b"v"),
    "log append time": Record(9, T_MS, LOG_APPEND_TIME, b"k", b"v"),
    "headers of one name": Record(9, T_MS, CREATE_TIME, b"k", b"v", (("h", b"1"), ("g", b"2"), ("h", b"1"))),
    "a null header": Record(9, T_MS, CREATE_TIME, b"k", b"v", (("h", None),)),
    "a header without a name": Record(9, T_MS, CREATE_TIME, b"k", b"v", (("", b"1"),)),
    "a header name that is no text": Record(9, T_MS, CREATE_TIME, b"k", b"v", (("\udcff", b"1"),)),
    "a header name in Greek": Record(9, T_MS, CREATE_TIME, b"k", b"v", (("λ", b"1"),)),
    "a large value": Record(9, T_MS, CREATE_TIME, b"k", b"large" * 300_000),
    "an offset beyond 32 bits": Record(1 << 40, T_MS, CREATE_TIME, b"k", b"v"),
}

REFUSED = [
    ("osodevops", "log append time"),
    ("osodevops", "a header name that is no text"),
    ("parquet", "time beyond any calendar"),
    ("parquet", "a header name that is no text"),
]
PLAIN_REFUSES = {
    "no value",
    "log append time",
    "headers of one name",
    "a null header",
    "a header name that is no text",
}
HELD = [(name, what) for name in ALL_FORMATS for what in TRICKY if (name, what) not in REFUSED]


def batch(*records: Record, codec: int = NONE) -> bytes:
    return bytes(encode(records, codec=codec, is_append_time=records[0].timestamp_type == LOG_APPEND_TIME))


def long_log(exchange: Exchange) -> None:
    """Two partitions, segments whose last batch reaches over the border, groups, and a second commit."""
    first = [NewSegment(partition=0, start=0, end=45, batches=[make_log(0, 50)])]
    exchange.commit(*first, groups=group("readers", (0, 7), (1, 3)))
    exchange.commit(
        NewSegment(partition=0, start=45, end=100, batches=[make_log(50, 100, codec=LZ4)]),
        NewSegment(partition=1, start=20, end=60, batches=[make_log(20, 60)]),
    )


def assert_same(exchange: Exchange, format_name: str, *, partition_1: bool = True) -> None:
    result = exchange.export(format_name, "a")
    assert (result.records, result.holes, result.postponed) == (140 if partition_1 else 100, (), ())
    back = exchange.bring_in(format_name, "a", "back")
    assert (back.records, back.holes, back.damaged) == (result.records, (), ())
    assert back.fidelity, "no format holds everything"
    assert exchange.content("back") == exchange.content("original")


@pytest.mark.parametrize("format_name", ALL_FORMATS)
def test_a_backup_comes_back_through_each_format(exchange: Exchange, format_name: str) -> None:
    exchange = replace(exchange, runner=shared_spark())
    long_log(exchange)
    assert_same(exchange, format_name)
    back = exchange.repository.backup("back")
    assert verify_deep(back, exchange.runner).ok
    groups = back.state().groups
    assert groups is not None
    assert committed(get_group_snapshot(back.store, groups)) == {"readers": {0: 7, 1: 3}}
    assert exchange.bring_in(format_name, "a", "back").records == 0, "importing again adds nothing"
    assert back.state().seq == 1


@pytest.mark.parametrize("format_name", ON_BUCKETS)
def test_a_backup_comes_back_through_a_bucket(bucket: Exchange, format_name: str) -> None:
    long_log(bucket)
    assert_same(bucket, format_name)


def test_a_format_that_appends_refuses_a_bucket(bucket: Exchange) -> None:
    long_log(bucket)
    with pytest.raises(BadOption, match="appending"):
        bucket.export("kafka-backup", "a")


def tricky_log(exchange: Exchange, record: Record) -> None:
    batches = [batch(*ORDINARY), batch(record)]
    exchange.commit(NewSegment(partition=0, start=0, end=record.offset + 1, batches=batches))


@pytest.mark.parametrize(("format_name", "what"), HELD)
def test_a_tricky_record_comes_back(exchange: Exchange, format_name: str, what: str) -> None:
    tricky_log(exchange, TRICKY[what])
    exchange.export(format_name, "a")
    exchange.bring_in(format_name, "a", "back")
    assert exchange.content("back") == exchange.content("original")


@pytest.mark.parametrize(("format_name", "what"), REFUSED)
def test_a_record_that_a_format_cannot_hold_is_refused_by_name(exchange: Exchange, format_name: str, what: str) -> None:
    tricky_log(exchange, TRICKY[what])
    with pytest.raises(NotRepresentable, match=r"orders.*9"):
        exchange.export(format_name, "a")
    result = exchange.export(format_name, "a", options=WriteOptions(lossy=True))
    assert [count for _, count in result.losses] == [1]
    assert exchange.bring_in(format_name, "a", "lossy").records in {len(ORDINARY), len(ORDINARY) + 1}


@pytest.mark.parametrize("what", TRICKY)
def test_the_plain_avro_schema_refuses_what_it_cannot_hold(exchange: Exchange, what: str) -> None:
    tricky_log(exchange, TRICKY[what])
    plain = WriteOptions(plain=True)
    if what not in PLAIN_REFUSES:
        exchange.export("avro", "a", options=plain)
        exchange.bring_in("avro", "a", "back")
        assert exchange.content("back") == exchange.content("original")
        return
    with pytest.raises(NotRepresentable, match=r"orders.*9"):
        exchange.export("avro", "a", options=plain)


@pytest.mark.parametrize("format_name", ALL_FORMATS)
def test_what_transactions_aborted_is_left_out(exchange: Exchange, format_name: str) -> None:
    def of_producer(base: int, producer_id: int) -> bytes:
        records = [Record(base + n, T_MS, CREATE_TIME, b"k", b"v") for n in range(5)]
        return bytes(encode(records, producer_id=producer_id, producer_epoch=0, is_transactional=True))

    batches = [
        of_producer(0, 7),
        of_producer(5, 8),
        make_control_batch(10, producer_id=7, committed=False),
        make_batch(11),
        make_control_batch(21, producer_id=8, committed=True),
    ]
    exchange.commit(NewSegment(partition=0, start=0, end=22, batches=batches))
    assert exchange.export(format_name, "a").records == 15
    exchange.bring_in(format_name, "a", "back")
    assert exchange.content("back") == exchange.content("original")
    assert exchange.export(format_name, "b", isolation="read_uncommitted").records == 20
