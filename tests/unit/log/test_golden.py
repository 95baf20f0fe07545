"""Segment files as a Kafka 4.1.1 broker holds them, written by its Java producer and by librdkafka 2.

`java-*`: 300 records of ProducerPerformance with monotonic payloads. `librdkafka-*`: `librdkafka_record(0…59)`.
`compacted`: a cleaned log, tombstones waiting for their delete horizon. `transactions`: three producers interleaved.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.log.batch import DELETE_HORIZON_BIT, BatchHeader, scan, verify_crc
from offsite.log.codec import CODEC_NAMES
from offsite.log.committed_view import CommittedView
from offsite.log.records.batch_records import decode
from offsite.log.records.record import Record
from offsite.log.rewrite import for_produce, needs_reencode, reencode_dense
from offsite.log.stats import LogStats
from offsite.log.transactions import TransactionIndexer, UndecidedTransaction

GOLDEN = Path(__file__).parent / "golden"


def log(name: str) -> tuple[bytes, list[BatchHeader]]:
    data = (GOLDEN / f"{name}.log").read_bytes()
    headers = scan(data)
    verify_crc(data, headers)
    assert headers[-1].end_position == len(data)
    return data, headers


def records(name: str) -> list[Record]:
    data, headers = log(name)
    return [record for header in headers for record in decode(header.view(data), header)]


def librdkafka_record(n: int) -> Record:
    headers = (("h", None), ("h", b"x"), ("é", b"")) if n % 4 == 0 else ()
    key = None if n % 3 == 0 else b"key-%d" % n
    value = None if n % 7 == 0 else b"value-%d," % n * (n % 5)
    return Record(n, 1_700_000_000_000 + n * 37 % 1000, 0, key, value, headers)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_batches_of_librdkafka_are_read(codec: str) -> None:
    assert {header.codec for header in log(f"librdkafka-{codec}")[1]} == {CODEC_NAMES.index(codec)}
    assert records(f"librdkafka-{codec}") == [librdkafka_record(n) for n in range(60)]


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_batches_of_the_java_producer_are_read(codec: str) -> None:
    assert {header.codec for header in log(f"java-{codec}")[1]} == {CODEC_NAMES.index(codec)}
    found = records(f"java-{codec}")
    assert [(r.offset, r.key, r.value, r.headers) for r in found] == [(n, None, b"%d" % n, ()) for n in range(300)]


def test_the_times_of_a_batch_with_a_delete_horizon_stay_when_it_is_rewritten() -> None:
    data, (cleaned, _) = log("compacted")
    assert cleaned.attributes & DELETE_HORIZON_BIT
    assert needs_reencode(cleaned)
    before = decode(cleaned.view(data), cleaned)
    assert {record.key for record in before} == {b"k%d" % n for n in range(23)}
    assert max(record.timestamp_ms for record in before) == cleaned.max_timestamp_ms < cleaned.base_timestamp_ms
    dense = reencode_dense(cleaned.view(data), cleaned)
    for_produce(dense, producer_id=-1, producer_epoch=-1, base_sequence=-1)
    assert [r[1:] for r in decode(dense, scan(dense)[0])] == [r[1:] for r in before]


def test_stats_of_a_transactional_log_count_data_and_markers_apart() -> None:
    stats = LogStats()
    stats.add(log("transactions")[1])
    figures = stats.summary()
    assert (figures.batches, figures.records, figures.control_batches) == (120, 97, 23)
    assert figures.has_transactions


def test_visible_records_are_those_whose_producers_committed() -> None:
    data, headers = log("transactions")
    indexer = TransactionIndexer()
    indexer.feed(data, headers)
    view = CommittedView([indexer.markers], end_offset=headers[-1].next_offset)
    visible = {record.value for h in headers if view.is_visible(h) for record in decode(h.view(data), h)}
    assert len(visible) == 52
    assert indexer.undecided == view.undecided == [
        UndecidedTransaction(producer_id=10, first_offset=109),
        UndecidedTransaction(producer_id=12, first_offset=117),
        UndecidedTransaction(producer_id=11, first_offset=119),
    ]  # fmt: skip
    assert [marker.first_offset for marker in indexer.markers].count(-1) == 0
