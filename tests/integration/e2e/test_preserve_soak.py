"""Logs that took hours to come back at their own offsets, or did not at all: how long they take."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.kafka.log_writer import LogWriter
from offsite.kafka.transaction_replay import PartitionTransactions
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.errors import Bug, OffsiteError
from tests.integration.e2e.copies import Copy
from tests.integration.e2e.site import Site
from tests.integration.kafka.cluster import wait_until

PARTITIONS, TRANSACTIONS, AT_ONCE = 4, 100_000, 5
OFFSETS, KEPT_EACH = 1_000_000, 10
LIMIT_S = 60

pytestmark = pytest.mark.soak


def test_a_hundred_thousand_transactions_come_back_within_a_minute(copy: Copy) -> None:
    topic = copy.site.make_topic(partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        write_transactions(copy.site, TopicPartition(topic=topic, partition=partition), TRANSACTIONS // PARTITIONS)
    comes_back_in_time(copy, topic, f"{TRANSACTIONS} transactions")


def test_a_compacted_log_of_which_nine_tenths_are_gone_comes_back_within_a_minute(copy: Copy) -> None:
    topic = compacted_topic(copy.site)
    comes_back_in_time(copy, topic, f"{OFFSETS} offsets")


def comes_back_in_time(copy: Copy, topic: str, what: str) -> None:
    copy.site.back_up(topic)
    began_s = time.monotonic()
    result = copy.restore(topic, offsets="auto")
    took_s = time.monotonic() - began_s
    print(f"{what}: {took_s:.1f} s")  # noqa: T201  # the figure is asked for
    assert result.topics[topic].same_offsets
    copy.assert_the_same_log(topic)
    assert took_s < LIMIT_S


def write_transactions(site: Site, where: TopicPartition, count: int) -> None:
    """Transactions of two records that overlap, a tenth of them aborted, with plain records between."""
    router = site.cluster.router
    transactions = PartitionTransactions(router, where, prefix=f"source-{where.topic}-{where.partition}")
    slots = [transactions.begin() for _ in range(AT_ONCE)]
    log = LogWriter(router, where, at=0, unexpected=_unexpected, guard=lambda: None)
    for first in range(0, count, AT_ONCE):
        for number, slot in enumerate(slots, start=first):
            log.send_batch(encode([_record(number, 0), _record(number, 1)]), 2, slot.producer)
        for number, slot in enumerate(slots, start=first):
            log.send_outcomes([transactions.outcome(slot, committed=number % 10 != 0)])
            transactions.begin()
    log.flush()
    log.close()
    transactions.abandon()


def compacted_topic(site: Site) -> str:
    """Each tenth record has a key of its own; all others are overwritten, and compacted away."""
    topic = site.make_topic(
        cleanup_policy="compact",
        segment_bytes=str(16 * 1024 * 1024),
        segment_ms="5000",
        min_cleanable_dirty_ratio="0.01",
    )
    site.produce(topic, _keyed(OFFSETS), linger_ms=20, batch_num_messages=500)
    end = OFFSETS

    def is_compacted() -> bool:
        nonlocal end
        site.produce(topic, [DemoMessage(key=b"", value=b"another segment", timestamp_ms=BASE_MS + 10_000 + end)])
        end += 1
        return len(site.read(topic)[0]) < OFFSETS // KEPT_EACH + 1_000

    wait_until(is_compacted, limit_s=300)
    return topic


def _keyed(count: int) -> Iterator[DemoMessage]:
    for number in range(count):
        key = b"%d" % number if number % KEPT_EACH == 0 else b""
        yield DemoMessage(key=key, value=b"record %d" % number, timestamp_ms=BASE_MS)


def _record(number: int, part: int) -> Record:
    return Record(part, BASE_MS + number, 0, b"%d" % number, b"%d of transaction %d" % (part, number))


def _unexpected(start: int, end: int) -> OffsiteError:
    return Bug(f"the source is not as it was written at {start} to {end}")
